// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"

namespace hvd {

Status pipelined_broadcast(Transport& net, Bytes data, int root, Deadline deadline) {
  const Tree tree = flat_tree(net.topology(), net.rank(), root, chain_tree);
  return relay(net, data, tree, kSegmentBytes, deadline);
}

}  // namespace hvd
