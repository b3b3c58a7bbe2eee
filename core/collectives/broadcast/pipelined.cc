// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"

namespace hvd {

Status pipelined_broadcast(const CollectiveContext& context, Bytes data, int root) {
  const Tree tree = flat_tree(context.topology(), context.rank(), root, chain_tree);
  return relay(context, data, tree, kSegmentBytes);
}

}  // namespace hvd
