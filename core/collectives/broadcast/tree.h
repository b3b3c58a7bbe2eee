// SPDX-License-Identifier: Apache-2.0
// From whom a rank gets the data of a broadcast, and to whom it passes them on.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

struct Tree {
  static constexpr int kNone = -1;
  int parent = kNone;         // nobody for the root
  std::vector<int> children;  // in the order in which they are served
};

// A shape says what surrounds `position` in a tree over positions 0 (the root) to count - 1.
using TreeShape = Tree (*)(int position, int count);

// Every holder passes the data on in every round, so all have them after log2(count) rounds; those
// with the most to do after them are served first.
Tree binomial_tree(int position, int count);
// One after the other: nobody sends a byte more than once.
Tree chain_tree(int position, int count);

// The shape over all ranks, rotated so that it starts at `root`.
Tree flat_tree(const Topology& topology, int rank, int root, TreeShape shape);
// The shape over one leader per host, starting at `root`, and the shape again below each leader:
// data enter every host once.
Tree two_level_tree(const Topology& topology, int rank, int root, TreeShape shape);

// Receives `data` from the parent and passes them to the children, `segment` bytes at a time.
Status relay(const CollectiveContext& context, Bytes data, const Tree& tree, size_t segment);

}  // namespace hvd
