// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"

namespace hvd {

// A leader sends to the next host and to the next rank of its own: two links, so that in a
// pipeline neither waits for the other.
Status two_level_broadcast(Transport& transport, Bytes data, int root, Deadline deadline) {
  const Topology& topology = transport.topology();
  const int hosts = topology.hosts();
  const int local = topology.largest_host();
  const bool pipelined =
      pipelining_pays(data.size(), hosts - 1 + local - 1, doublings(hosts) + doublings(local));
  const Tree tree =
      two_level_tree(topology, transport.rank(), root, pipelined ? chain_tree : binomial_tree);
  return relay(transport, data, tree, pipelined ? kSegmentBytes : data.size(), deadline);
}

}  // namespace hvd
