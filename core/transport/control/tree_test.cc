// SPDX-License-Identifier: Apache-2.0
#include "transport/control/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hvd {
namespace {

Topology uneven(int size) {
  std::vector<int> host_of(size);
  for (int rank = 0; rank < size; ++rank) host_of[rank] = rank * rank % 7;
  return Topology(host_of);
}

TEST(ControlTree, JoinsAllRanksUnderRankZeroWithoutRings) {
  for (const int size : {1, 2, 3, 9, 10, 64, 1000}) {
    for (const Topology& topology : {Topology::one_host(size), uneven(size), [size] {
                                       std::vector<int> alone(size);
                                       for (int rank = 0; rank < size; ++rank) alone[rank] = rank;
                                       return Topology(alone);
                                     }()}) {
      for (int rank = 0; rank < size; ++rank) {
        int steps = 0;
        for (int at = rank; at != 0; ++steps) {
          const int parent = ControlTree::of(at, topology).parent;
          ASSERT_GE(parent, 0);
          const std::vector<int> siblings = ControlTree::of(parent, topology).children;
          ASSERT_EQ(std::count(siblings.begin(), siblings.end(), at), 1);
          at = parent;
        }
        ASSERT_LE(steps, 10) << "rank " << rank << " of " << size;
      }
      EXPECT_EQ(ControlTree::of(0, topology).parent, -1);
    }
  }
}

TEST(ControlTree, LeavesItsHostOnlyAtTheLeader) {
  const Topology topology = uneven(50);
  for (int rank = 0; rank < 50; ++rank) {
    const ControlTree tree = ControlTree::of(rank, topology);
    if (topology.local_rank(rank) == 0) continue;
    EXPECT_EQ(topology.host_of(tree.parent), topology.host_of(rank));
    for (const int child : tree.children) {
      EXPECT_EQ(topology.host_of(child), topology.host_of(rank));
    }
  }
}

TEST(ControlTree, BoundsTheNumberOfNeighbours) {
  const Topology topology = uneven(1000);
  for (int rank = 0; rank < 1000; ++rank) {
    EXPECT_LE(ControlTree::of(rank, topology).children.size(),
              ControlTree::kFanOutWithinHost + ControlTree::kFanOutBetweenHosts);
  }
}

}  // namespace
}  // namespace hvd
