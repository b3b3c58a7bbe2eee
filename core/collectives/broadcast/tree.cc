// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/tree.h"

#include <bit>

#include "base/function_ref.h"
#include "collectives/blocks.h"

namespace hvd {
namespace {

// Adds to `tree` the neighbours in `part`, which are positions; rank_at(position) gives their
// ranks.
void join(Tree& tree, const Tree& part, FunctionRef<int(int position)> rank_at) {
  if (part.parent != Tree::kNone) tree.parent = rank_at(part.parent);
  for (const int child : part.children) tree.children.push_back(rank_at(child));
}

}  // namespace

Tree binomial_tree(int position, int count) {
  // The parent is the position without its lowest bit; the children add one lower bit each.
  Tree tree;
  int bit = static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
  if (position != 0) {
    tree.parent = position & (position - 1);
    bit = position & -position;
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (position + bit < count) tree.children.push_back(position + bit);
  }
  return tree;
}

Tree chain_tree(int position, int count) {
  Tree tree;
  if (position != 0) tree.parent = position - 1;
  if (position + 1 < count) tree.children.push_back(position + 1);
  return tree;
}

Tree flat_tree(const Topology& topology, int rank, int root, TreeShape shape) {
  const int size = topology.size();
  Tree tree;
  join(tree, shape((rank - root + size) % size, size),
       [&](int position) { return (position + root) % size; });
  return tree;
}

Tree two_level_tree(const Topology& topology, int rank, int root, TreeShape shape) {
  const int hosts = topology.hosts();
  const int root_host = topology.host_of(root);
  const auto leader_of = [&](int host) {
    return host == root_host ? root : topology.ranks_on(host).front();
  };
  const int host = topology.host_of(rank);
  const int leader = leader_of(host);
  Tree tree;
  // Other hosts first: their path is the longer one.
  if (rank == leader) {
    join(tree, shape((host - root_host + hosts) % hosts, hosts),
         [&](int position) { return leader_of((position + root_host) % hosts); });
  }
  const std::vector<int>& local = topology.ranks_on(host);
  const int count = static_cast<int>(local.size());
  const int first = topology.local_rank(leader);
  join(tree, shape((topology.local_rank(rank) - first + count) % count, count),
       [&](int position) { return local[(position + first) % count]; });
  return tree;
}

Status relay(const CollectiveContext& context, Bytes data, const Tree& tree, size_t segment) {
  for (size_t done = 0; done < data.size(); done += segment) {
    const Bytes piece = segment_at(data, done, segment);
    if (tree.parent != Tree::kNone) HVD_TRY(context.recv(tree.parent, piece));
    for (const int child : tree.children) HVD_TRY(context.send(child, piece));
  }
  return context.flush();
}

}  // namespace hvd
