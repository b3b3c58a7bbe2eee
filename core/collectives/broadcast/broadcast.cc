// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"

#include "collectives/message_cost.h"
#include "collectives/shared_memory.h"

namespace hvd {

bool pipelining_pays(size_t bytes, int hops, int rounds) {
  if (bytes == 0) return false;
  const size_t segments = (bytes + kSegmentBytes - 1) / kSegmentBytes;
  return (static_cast<size_t>(hops) - 1 + segments) * message_cost(kSegmentBytes) <
         static_cast<size_t>(rounds) * message_cost(bytes);
}

BroadcastAlgorithm choose_broadcast(size_t bytes, const Topology& topology) {
  if (topology.hosts() > 1 && topology.largest_host() > 1) return BroadcastAlgorithm::kTwoLevel;
  const int ranks = topology.size();
  return pipelining_pays(bytes, ranks - 1, doublings(ranks)) ? BroadcastAlgorithm::kPipelined
                                                             : BroadcastAlgorithm::kBinomial;
}

Status broadcast(Transport& transport, Bytes data, int root, Deadline deadline) {
  if (Arena* arena = arena_of_all(transport)) {
    return shared_memory_broadcast(*arena, data, root, deadline);
  }
  switch (choose_broadcast(data.size(), transport.topology())) {
    case BroadcastAlgorithm::kBinomial: return binomial_broadcast(transport, data, root, deadline);
    case BroadcastAlgorithm::kPipelined:
      return pipelined_broadcast(transport, data, root, deadline);
    case BroadcastAlgorithm::kTwoLevel: return two_level_broadcast(transport, data, root, deadline);
  }
  return internal_error("broadcast: no such algorithm");
}

}  // namespace hvd
