// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/blocks.h"

namespace hvd {

// `held` has the blocks in the order rank(), rank() + 1, …, n - 1, 0, …, rank() - 1. A rank that
// holds the first `have` of them receives the next `count` ones from the rank `have` to its right,
// where they are the first, and sends its own first `count` to the rank `have` to its left. The
// last round moves the remaining n - have blocks. At the end two copies put the blocks into rank
// order.
Status bruck_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                       std::span<const size_t> bytes_of) {
  const int size = context.size();
  const int rank = context.rank();
  const Blocks blocks(bytes_of);
  HVD_CHECK(mine.size() == blocks.bytes(rank) && out.size() == blocks.total());

  const Bytes held = context.scratch.get(blocks.total());
  // Where the block of rank() + k starts in `held`.
  const auto start = [&](int k) {
    return rank + k <= size ? blocks.offset(rank + k) - blocks.offset(rank)
                            : blocks.total() - blocks.offset(rank) + blocks.offset(rank + k - size);
  };
  copy_bytes(held.first(mine.size()), mine);
  for (int have = 1; have < size; have *= 2) {
    const int count = std::min(have, size - have);
    const Bytes arriving = held.subspan(start(have), start(have + count) - start(have));
    HVD_TRY(context.send((rank - have + size) % size, held.first(start(count))));
    HVD_TRY(context.recv((rank + have) % size, arriving));
  }
  const size_t wrap = blocks.total() - blocks.offset(rank);  // rank 0's block starts here
  copy_bytes(out.subspan(blocks.offset(rank)), held.first(wrap));
  copy_bytes(out.first(blocks.offset(rank)), held.subspan(wrap));
  return context.flush();
}

}  // namespace hvd
