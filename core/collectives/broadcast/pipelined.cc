// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"

namespace hvd {

Status pipelined_broadcast(Transport& transport, Bytes data, int root, Deadline deadline) {
  const Tree tree = flat_tree(transport.topology(), transport.rank(), root, chain_tree);
  return relay(transport, data, tree, kSegmentBytes, deadline);
}

}  // namespace hvd
