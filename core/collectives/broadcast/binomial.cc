// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"
#include "collectives/broadcast/tree.h"

namespace hvd {

Status binomial_broadcast(Transport& transport, Bytes data, int root, Deadline deadline) {
  const Tree tree = flat_tree(transport.topology(), transport.rank(), root, binomial_tree);
  return relay(transport, data, tree, data.size(), deadline);
}

}  // namespace hvd
