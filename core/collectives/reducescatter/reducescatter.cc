// SPDX-License-Identifier: Apache-2.0
#include "collectives/reducescatter/reducescatter.h"

#include <algorithm>

#include "collectives/message_cost.h"
#include "collectives/shared_memory.h"

namespace hvd {

std::vector<size_t> row_parts(size_t rows, size_t row_bytes, int ranks) {
  std::vector<size_t> bytes_of;
  for (int rank = 0; rank < ranks; ++rank) {
    bytes_of.push_back(rows_of(rows, rank, ranks) * row_bytes);
  }
  return bytes_of;
}

// Pairwise has all its messages in flight at once, so it costs one latency where the ring costs n -
// 1, and each rank sends the same (n - 1)/n of the input. The ring is better for the link of a host
// with several ranks: pairwise sends over it one part for every pair of a rank inside and a rank
// outside, the ring only the parts that its last rank sends to the next host.
ReducescatterAlgorithm choose_reducescatter(size_t bytes, const Topology& topology,
                                            bool deterministic) {
  if (deterministic || topology.hosts() == 1) return ReducescatterAlgorithm::kPairwise;
  const auto ranks = static_cast<size_t>(topology.size());
  const auto inside = static_cast<size_t>(topology.largest_host());
  const size_t part = bytes / ranks;
  const size_t pairwise = message_cost(part * inside * (ranks - inside));
  const size_t ring = (ranks - 1) * message_cost(part);
  return ring < pairwise ? ReducescatterAlgorithm::kRing : ReducescatterAlgorithm::kPairwise;
}

Status reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                     std::span<const size_t> bytes_of, const Reduction& reduction) {
  if (Arena* arena = arena_of_all(context.transport)) {
    return shared_memory_reducescatter(*arena, in, out, bytes_of, reduction, context.deadline);
  }
  switch (choose_reducescatter(in.size(), context.topology(), context.options.deterministic)) {
    case ReducescatterAlgorithm::kPairwise:
      return pairwise_reducescatter(context, in, out, bytes_of, reduction);
    case ReducescatterAlgorithm::kRing:
      return ring_reducescatter(context, in, out, bytes_of, reduction);
  }
  return internal_error("reducescatter: no such algorithm");
}

}  // namespace hvd
