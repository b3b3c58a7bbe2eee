// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"

namespace hvd {

// A leader sends to the next host and to the next rank of its own host. These are two links, so in
// a pipeline neither waits for the other.
Status two_level_broadcast(const CollectiveContext& context, Bytes data, int root) {
  const Topology& topology = context.topology();
  const int hosts = topology.hosts();
  const int local = topology.largest_host();
  const bool pipelined =
      pipelining_pays(data.size(), hosts - 1 + local - 1, doublings(hosts) + doublings(local));
  const Tree tree =
      two_level_tree(topology, context.rank(), root, pipelined ? chain_tree : binomial_tree);
  return relay(context, data, tree, pipelined ? kSegmentBytes : data.size());
}

}  // namespace hvd
