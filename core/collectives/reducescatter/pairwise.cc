// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "collectives/blocks.h"
#include "collectives/reducescatter/reducescatter.h"

namespace hvd {
namespace {

// Bytes of a segment. Received segments that wait to be combined stay in the cache: 1 MiB for all
// ranks together, but at least 16 KiB each, which is about the size that is worth a message
// (message_cost.h).
size_t segment_bytes(int ranks) {
  constexpr size_t kAllRanks = 1 << 20;
  constexpr size_t kLeast = 16 << 10;
  return round_down(std::max(kAllRanks / static_cast<size_t>(ranks), kLeast), Scratch::kAlignment);
}

}  // namespace

// In round i every rank sends the i-th segment of each part to its owner. The owner applies
// prescale to the values it has received. The product is the same as if the sender had computed it,
// and no rank needs a scaled copy of its input.
Status pairwise_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                              std::span<const size_t> bytes_of, const Reduction& reduction) {
  const int size = context.size();
  const int rank = context.rank();
  const Blocks parts(bytes_of);
  HVD_CHECK(in.size() == parts.total() && out.size() == parts.bytes(rank));

  const ConstBytes own = parts.of(in, rank);
  const size_t most = std::min(segment_bytes(size),
                               round_up(std::max<size_t>(parts.largest(), 1), Scratch::kAlignment));
  const Bytes slots = context.scratch.get(most * static_cast<size_t>(size));  // one per rank
  std::vector<const std::byte*> operands(static_cast<size_t>(size));
  for (size_t done = 0; done < parts.largest(); done += most) {
    for (int step = 1; step < size; ++step) {
      const int to = (rank + step) % size;
      HVD_TRY(context.send(to, segment_at(parts.of(in, to), done, most)));
    }
    const Bytes result = segment_at(out, done, most);
    for (int step = 0; step < size; ++step) {
      const int from = (rank - step + size) % size;
      const Bytes slot = slots.subspan(most * static_cast<size_t>(from), result.size());
      operands[static_cast<size_t>(from)] = slot.data();
      if (from == rank && !reduction.needs_prepare()) {
        operands[static_cast<size_t>(from)] = segment_at(own, done, most).data();
      } else if (from == rank) {
        copy_bytes(slot, segment_at(own, done, most));
      } else {
        HVD_TRY(context.recv(from, slot));
      }
      if (reduction.needs_prepare()) reduction.prepare(slot);
    }
    if (result.empty()) continue;
    reduction.combine_all(result, operands);
    reduction.finish(result);
  }
  return context.flush();
}

}  // namespace hvd
