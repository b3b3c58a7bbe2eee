// SPDX-License-Identifier: Apache-2.0
#include "collectives/ring.h"

#include "collectives/allgather/allgather.h"
#include "collectives/blocks.h"
#include "collectives/message_cost.h"

namespace hvd {

Status ring_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                      std::span<const size_t> bytes_of) {
  const Ring ring(context.topology(), context.rank());
  const Blocks blocks(bytes_of);
  HVD_CHECK(mine.size() == blocks.bytes(context.rank()) && out.size() == blocks.total());

  const Bytes own = blocks.of(out, context.rank());
  copy_bytes(own, mine);
  if (context.size() > 1) HVD_TRY(context.send(ring.at(1), own));
  // The left neighbour sends the blocks of at(-1), at(-2), … in this order. The last one is the
  // right neighbour's own block, so it is not forwarded.
  for (int hop = 1; hop < context.size(); ++hop) {
    const Bytes block = blocks.of(out, ring.at(-hop));
    for (size_t done = 0; done < block.size(); done += kSegmentBytes) {
      const Bytes segment = segment_at(block, done, kSegmentBytes);
      HVD_TRY(context.recv(ring.at(-1), segment));
      if (hop + 1 < context.size()) HVD_TRY(context.send(ring.at(1), segment));
    }
  }
  return context.flush();
}

}  // namespace hvd
