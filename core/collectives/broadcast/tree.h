// SPDX-License-Identifier: Apache-2.0
// Tree: the rank from which a rank receives the data of a broadcast, and the ranks to which it
// sends them.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

struct Tree {
  static constexpr int kNone = -1;
  int parent = kNone;         // kNone for the root
  std::vector<int> children;  // in the order of the sends
};

// A shape gives the parent and children of `position` in a tree over positions 0 (the root) to
// count - 1.
using TreeShape = Tree (*)(int position, int count);

// Every position that has the data sends them in every round, so all have them after
// ceil(log2(count)) rounds. Children with the largest subtrees come first.
Tree binomial_tree(int position, int count);
// Position i sends to position i + 1: every position sends a byte at most once.
Tree chain_tree(int position, int count);

// The shape over all ranks, rotated so that it starts at `root`.
Tree flat_tree(const Topology& topology, int rank, int root, TreeShape shape);
// The shape over one leader per host, starting at `root`, and the shape again below each leader.
// Data enter every host once.
Tree two_level_tree(const Topology& topology, int rank, int root, TreeShape shape);

// Receives `data` from the parent and sends them to the children, `segment` bytes at a time.
Status relay(const CollectiveContext& context, Bytes data, const Tree& tree, size_t segment);

}  // namespace hvd
