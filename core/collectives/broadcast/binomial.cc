// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"

namespace hvd {

Status binomial_broadcast(Transport& net, Bytes data, int root, Deadline deadline) {
  const Tree tree = flat_tree(net.topology(), net.rank(), root, binomial_tree);
  return relay(net, data, tree, data.size(), deadline);
}

}  // namespace hvd
