// SPDX-License-Identifier: Apache-2.0
#include "collectives/allgather/allgather.h"

#include "collectives/blocks.h"
#include "collectives/message_cost.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::pattern;
using testing::run_ranks;
using testing::soon;

using Algorithm = Status (*)(const CollectiveContext&, ConstBytes, Bytes, std::span<const size_t>);
constexpr Algorithm kAlgorithms[] = {bruck_allgather, ring_allgather, two_level_allgather,
                                     allgather};

HVD_TEST_WORLDS(Allgather, testing::worlds());
HVD_TEST_WORLDS(AllgatherFailure, testing::worlds_to_break());

// Bytes of each rank: nothing, equal, all different, and nothing except on the last rank.
std::vector<std::vector<size_t>> layouts(int ranks) {
  const auto size = static_cast<size_t>(ranks);
  std::vector<size_t> varied;
  for (size_t rank = 0; rank < size; ++rank) varied.push_back((rank * 5 + 2) % 7 * 111);
  std::vector<size_t> lopsided(size - 1, 0);
  lopsided.push_back(2 * kSegmentBytes + 5);
  return {std::vector<size_t>(size, 0), std::vector<size_t>(size, 1),
          std::vector<size_t>(size, 1000), varied, lopsided};
}

std::vector<std::byte> concatenation(const std::vector<size_t>& bytes_of) {
  std::vector<std::byte> all;
  for (size_t rank = 0; rank < bytes_of.size(); ++rank) {
    const auto block = pattern(bytes_of[rank], static_cast<int>(rank));
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

TEST_P(Allgather, EveryRankGetsAllBlocksInRankOrder) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [](Transport& transport) -> Status {
    Scratch scratch;
    for (const Algorithm algorithm : kAlgorithms) {
      for (const auto& bytes_of : layouts(transport.size())) {
        const auto expected = concatenation(bytes_of);
        const auto mine = pattern(bytes_of[transport.rank()], transport.rank());
        std::vector<std::byte> out(expected.size());
        HVD_TRY(algorithm({transport, scratch, soon()}, mine, out, bytes_of));
        EXPECT_TRUE(out == expected);

        std::vector<std::byte> in_place(expected.size());
        const Bytes place = Blocks(bytes_of).of(Bytes(in_place), transport.rank());
        copy_bytes(place, mine);
        HVD_TRY(algorithm({transport, scratch, soon()}, place, in_place, bytes_of));
        EXPECT_TRUE(in_place == expected);
      }
    }
    return Status::ok();
  });
}

TEST_P(AllgatherFailure, ADeathAtAnyStepIsKnownToAll) {
  for (const Algorithm algorithm : {bruck_allgather, ring_allgather, two_level_allgather}) {
    testing::expect_every_death_is_known(GetParam(), [algorithm](Transport& transport) {
      Scratch scratch;
      const auto bytes_of = layouts(transport.size())[3];
      const auto mine = pattern(bytes_of[transport.rank()], transport.rank());
      std::vector<std::byte> out(concatenation(bytes_of).size());
      return algorithm({transport, scratch, soon()}, mine, out, bytes_of);
    });
  }
}

TEST(AllgatherChoice, TakesFewRoundsForSmallAndFewBytesForLargeOrLopsidedData) {
  const Topology flat = Topology::one_host(8);
  const auto choose = [](std::vector<size_t> bytes_of, const Topology& topology) {
    return choose_allgather(bytes_of, topology);
  };
  EXPECT_EQ(choose(std::vector<size_t>(8, 100), flat), AllgatherAlgorithm::kBruck);
  EXPECT_EQ(choose(std::vector<size_t>(8, 1 << 20), flat), AllgatherAlgorithm::kRing);
  std::vector<size_t> lopsided(8, 0);
  lopsided[3] = 8 << 20;
  EXPECT_EQ(choose(lopsided, flat), AllgatherAlgorithm::kRing);
  // With two ranks both need one round, and the ring does not copy.
  EXPECT_EQ(choose({4, 4}, Topology::one_host(2)), AllgatherAlgorithm::kRing);
  const Topology hosts({0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_EQ(choose(std::vector<size_t>(8, 100), hosts), AllgatherAlgorithm::kTwoLevel);
  EXPECT_EQ(choose(std::vector<size_t>(8, 1 << 20), hosts), AllgatherAlgorithm::kRing);
}

}  // namespace
}  // namespace hvd
