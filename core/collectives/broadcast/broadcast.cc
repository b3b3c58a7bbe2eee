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

Status broadcast(const CollectiveContext& context, Bytes data, int root) {
  if (Arena* arena = arena_of_all(context.transport)) {
    return shared_memory_broadcast(*arena, data, root, context.deadline);
  }
  switch (choose_broadcast(data.size(), context.topology())) {
    case BroadcastAlgorithm::kBinomial: return binomial_broadcast(context, data, root);
    case BroadcastAlgorithm::kPipelined: return pipelined_broadcast(context, data, root);
    case BroadcastAlgorithm::kTwoLevel: return two_level_broadcast(context, data, root);
  }
  return internal_error("broadcast: no such algorithm");
}

}  // namespace hvd
