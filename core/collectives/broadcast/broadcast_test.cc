// SPDX-License-Identifier: Apache-2.0
#include "collectives/broadcast/broadcast.h"

#include <set>

#include "collectives/broadcast/tree.h"
#include "collectives/message_cost.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::pattern;
using testing::run_ranks;
using testing::soon;

using Algorithm = Status (*)(const CollectiveContext&, Bytes, int root);
constexpr Algorithm kAlgorithms[] = {binomial_broadcast, pipelined_broadcast, two_level_broadcast,
                                     broadcast};

HVD_TEST_WORLDS(Broadcast, testing::worlds());
HVD_TEST_WORLDS(BroadcastFailure, testing::worlds_to_break());

TEST_P(Broadcast, EveryRankGetsTheBytesOfAnyRoot) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [](Transport& transport) -> Status {
    Scratch scratch;
    for (const Algorithm algorithm : kAlgorithms) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, 5 * kSegmentBytes / 2 + 1}) {
        for (const int root : std::set{0, transport.size() / 2, transport.size() - 1}) {
          const auto expected = pattern(size, root);
          auto data = transport.rank() == root ? expected : std::vector<std::byte>(size);
          HVD_TRY(algorithm({transport, scratch, soon()}, data, root));
          EXPECT_TRUE(data == expected) << size << " bytes from rank " << root;
        }
      }
    }
    return Status::ok();
  });
}

TEST_P(BroadcastFailure, ADeathAtAnyStepIsKnownToAll) {
  for (const Algorithm algorithm : {binomial_broadcast, pipelined_broadcast, two_level_broadcast}) {
    testing::expect_every_death_is_known(GetParam(), [algorithm](Transport& transport) {
      Scratch scratch;
      auto data = pattern(kSegmentBytes + 1, transport.rank());
      return algorithm({transport, scratch, soon()}, data, transport.size() - 1);
    });
  }
}

// Each rank except the root is the child of its parent and of no other rank.
void expect_tree(const Topology& topology, int root, const std::vector<Tree>& trees) {
  std::vector<int> served(trees.size(), 0);
  for (int rank = 0; rank < topology.size(); ++rank) {
    for (const int child : trees[rank].children) {
      EXPECT_EQ(trees[child].parent, rank);
      ++served[child];
    }
  }
  for (int rank = 0; rank < topology.size(); ++rank) EXPECT_EQ(served[rank], rank == root ? 0 : 1);
}

TEST(BroadcastTree, ReachesEveryRankOnceAndInTwoLevelsEveryHostOnce) {
  for (int size = 1; size <= 33; ++size) {
    std::vector<int> host_of;
    for (int rank = 0; rank < size; ++rank) host_of.push_back((rank * rank) % 5 % 4);
    const Topology topology(host_of);
    for (const int root : {0, size / 3, size - 1}) {
      for (const TreeShape shape : {binomial_tree, chain_tree}) {
        std::vector<Tree> flat;
        std::vector<Tree> levels;
        int between_hosts = 0;
        for (int rank = 0; rank < size; ++rank) {
          flat.push_back(flat_tree(topology, rank, root, shape));
          levels.push_back(two_level_tree(topology, rank, root, shape));
          for (const int child : levels.back().children) {
            if (topology.host_of(child) != topology.host_of(rank)) ++between_hosts;
          }
        }
        expect_tree(topology, root, flat);
        expect_tree(topology, root, levels);
        EXPECT_EQ(between_hosts, topology.hosts() - 1);
      }
    }
  }
}

TEST(BroadcastChoice, PipelinesLargeDataAndMindsHosts) {
  const Topology flat = Topology::one_host(8);
  EXPECT_EQ(choose_broadcast(4, flat), BroadcastAlgorithm::kBinomial);
  EXPECT_EQ(choose_broadcast(kSegmentBytes, flat), BroadcastAlgorithm::kBinomial);
  EXPECT_EQ(choose_broadcast(64 << 20, flat), BroadcastAlgorithm::kPipelined);
  // With two ranks a chain is a tree, and segments only add latencies.
  EXPECT_EQ(choose_broadcast(64 << 20, Topology::one_host(2)), BroadcastAlgorithm::kBinomial);
  EXPECT_EQ(choose_broadcast(64 << 20, Topology::one_host(1)), BroadcastAlgorithm::kBinomial);
  EXPECT_EQ(choose_broadcast(4, Topology({0, 0, 1, 1})), BroadcastAlgorithm::kTwoLevel);
  EXPECT_EQ(choose_broadcast(4, Topology({0, 1, 2, 3})), BroadcastAlgorithm::kBinomial);
}

}  // namespace
}  // namespace hvd
