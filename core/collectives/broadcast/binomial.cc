// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"

namespace hvd {

Status binomial_broadcast(const CollectiveContext& context, Bytes data, int root) {
  const Tree tree = flat_tree(context.topology(), context.rank(), root, binomial_tree);
  return relay(context, data, tree, data.size());
}

}  // namespace hvd
