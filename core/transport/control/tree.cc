// SPDX-License-Identifier: Apache-2.0
#include "transport/control/tree.h"

#include <algorithm>

namespace hvd {
namespace {

// The nodes form a heap: the parent of node i is (i - 1) / fan_out.
void add_children(int node, int nodes, int fan_out, auto rank_of, std::vector<int>& children) {
  for (int child = node * fan_out + 1; child <= node * fan_out + fan_out && child < nodes;
       ++child) {
    children.push_back(rank_of(child));
  }
}

}  // namespace

ControlTree ControlTree::of(int rank, const Topology& topology) {
  ControlTree tree;
  const int host = topology.host_of(rank);
  const int local = topology.local_rank(rank);
  const std::vector<int>& here = topology.ranks_on(host);
  const auto leader_of = [&](int of_host) { return topology.ranks_on(of_host).front(); };
  if (local > 0) {
    tree.parent = here[(local - 1) / kFanOutWithinHost];
  } else if (host > 0) {
    tree.parent = leader_of((host - 1) / kFanOutBetweenHosts);
  }
  add_children(
      local, static_cast<int>(here.size()), kFanOutWithinHost,
      [&](int child) { return here[child]; }, tree.children);
  if (local == 0) {
    add_children(host, topology.hosts(), kFanOutBetweenHosts, leader_of, tree.children);
  }
  std::sort(tree.children.begin(), tree.children.end());
  return tree;
}

}  // namespace hvd
