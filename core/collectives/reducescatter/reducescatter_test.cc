// SPDX-License-Identifier: Apache-2.0
#include "collectives/reducescatter/reducescatter.h"

#include <cstring>
#include <numeric>

#include "collectives/message_cost.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::run_ranks;
using testing::soon;
using testing::Values;

using Algorithm = Status (*)(const CollectiveContext&, ConstBytes, Bytes, std::span<const size_t>,
                             const Reduction&);
constexpr Algorithm kAlgorithms[] = {pairwise_reducescatter, ring_reducescatter};

HVD_TEST_WORLDS(Reducescatter, testing::worlds());
HVD_TEST_WORLDS(ReducescatterFailure, testing::worlds_to_break());

struct Case {
  ReduceOp op;
  DType dtype;
  size_t rows;
  size_t row_elements;
  double prescale = 1.0;
  double postscale = 1.0;
};

std::vector<Case> cases(int ranks) {
  std::vector<Case> all;
  const auto n = static_cast<size_t>(ranks);
  // Every dtype and op with fewer, as many and more rows than ranks.
  for (int id = 0; id < kDTypeCount; ++id) {
    const auto dtype = static_cast<DType>(id);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      all.push_back({op, dtype, 2 * n + 1, 3});
    }
    all.push_back({ReduceOp::kSum, dtype, n - 1, 5, 0.5, 4.0});
  }
  all.push_back({ReduceOp::kSum, DType::kFloat32, 0, 3});
  all.push_back({ReduceOp::kSum, DType::kFloat32, 1, 1});
  all.push_back({ReduceOp::kSum, DType::kFloat32, n, 1});
  // Several segments per part, in both algorithms.
  all.push_back({ReduceOp::kAverage, DType::kFloat32, n + 1, kSegmentBytes / 4 + 3, 0.5, 2.0});
  return all;
}

// The input and the expected part of every rank, made once for all ranks.
struct Problem {
  Case c;
  std::vector<Values> inputs;
  std::vector<size_t> bytes_of;
  std::vector<Values> expected;

  Problem(const Case& made_from, int ranks)
      : c(made_from), bytes_of(row_parts(c.rows, c.row_elements * size_of(c.dtype), ranks)) {
    for (int r = 0; r < ranks; ++r) {
      inputs.push_back(testing::random_values(c.dtype, c.rows * c.row_elements, r + 1));
    }
    const Values all = testing::reference_reduce(c.op, c.dtype, inputs, c.prescale, c.postscale);
    auto part = all.begin();
    for (const size_t bytes : bytes_of) {
      expected.emplace_back(part, part + bytes);
      part += bytes;
    }
  }
};

TEST_P(Reducescatter, EveryRankGetsItsRowsOfTheResultAndKeepsItsInput) {
  const auto [kind, ranks] = GetParam();
  std::vector<Problem> problems;
  for (const Case& c : cases(ranks)) problems.emplace_back(c, ranks);
  run_ranks(kind, ranks, [&](Transport& transport) -> Status {
    Scratch scratch;
    for (const Problem& problem : problems) {
      const Case& c = problem.c;
      const Values& expected = problem.expected[transport.rank()];
      HVD_TRY_ASSIGN(const Reduction reduction,
                     Reduction::make(c.op, c.dtype, transport.size(), c.prescale, c.postscale));
      for (const Algorithm algorithm :
           {pairwise_reducescatter, ring_reducescatter, reducescatter}) {
        const Values in = problem.inputs[transport.rank()];
        Values out(expected.size());
        HVD_TRY(algorithm({transport, scratch, soon()}, in, out, problem.bytes_of, reduction));
        EXPECT_TRUE(testing::near(c.dtype, out, expected, transport.size()))
            << to_string(c.op) << " of " << c.rows << " rows of " << to_string(c.dtype);
        EXPECT_TRUE(in == problem.inputs[transport.rank()]);
      }
    }
    return Status::ok();
  });
}

TEST_P(Reducescatter, DeterministicBitsDoNotDependOnThePlaceOfAnElement) {
  const auto [kind, ranks] = GetParam();
  // A rank contributes the same value everywhere; the sum depends on the order and on the rounding.
  constexpr size_t kRows = 1003;
  std::vector<float> results(kRows);
  const std::vector<size_t> bytes_of = row_parts(kRows, sizeof(float), ranks);
  run_ranks(kind, ranks, [&](Transport& transport) -> Status {
    const std::vector<float> in(kRows, 1.0F / (3.0F + 7.0F * static_cast<float>(transport.rank())));
    const auto first =
        std::accumulate(bytes_of.begin(), bytes_of.begin() + transport.rank(), size_t{0});
    const Bytes out =
        std::as_writable_bytes(std::span(results)).subspan(first, bytes_of[transport.rank()]);
    HVD_TRY_ASSIGN(const Reduction reduction, Reduction::make(ReduceOp::kAverage, DType::kFloat32,
                                                              transport.size(), 0.7, 1.3));
    Scratch scratch;
    const AllreduceOptions options{.deterministic = true};
    return reducescatter({transport, scratch, soon(), options}, std::as_bytes(std::span(in)), out,
                         bytes_of, reduction);
  });
  for (const float result : results) {
    ASSERT_EQ(std::memcmp(&result, results.data(), sizeof(float)), 0);
  }
}

TEST_P(ReducescatterFailure, ADeathAtAnyStepIsKnownToAll) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Problem problem({ReduceOp::kSum, DType::kFloat32, 7, 11}, GetParam().ranks);
    testing::expect_every_death_is_known(GetParam(), [&](Transport& transport) -> Status {
      HVD_TRY_ASSIGN(const Reduction reduction,
                     Reduction::make(problem.c.op, problem.c.dtype, transport.size()));
      Values out(problem.expected[transport.rank()].size());
      Scratch scratch;
      return algorithm({transport, scratch, soon()}, problem.inputs[transport.rank()], out,
                       problem.bytes_of, reduction);
    });
  }
}

TEST(ReducescatterRows, TheRemainderGoesToTheFirstRanks) {
  EXPECT_EQ(row_parts(7, 4, 3), (std::vector<size_t>{12, 8, 8}));
  EXPECT_EQ(row_parts(2, 4, 3), (std::vector<size_t>{4, 4, 0}));
  EXPECT_EQ(row_parts(0, 4, 2), (std::vector<size_t>{0, 0}));
}

TEST(ReducescatterChoice, TakesTheRingOnlyWhenRanksShareALinkAndDataAreLarge) {
  const Topology hosts({0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_EQ(choose_reducescatter(64 << 20, hosts, false), ReducescatterAlgorithm::kRing);
  EXPECT_EQ(choose_reducescatter(64 << 20, hosts, true), ReducescatterAlgorithm::kPairwise);
  EXPECT_EQ(choose_reducescatter(1 << 10, hosts, false), ReducescatterAlgorithm::kPairwise);
  EXPECT_EQ(choose_reducescatter(64 << 20, Topology::one_host(8), false),
            ReducescatterAlgorithm::kPairwise);
  EXPECT_EQ(choose_reducescatter(64 << 20, Topology({0, 1, 2, 3}), false),
            ReducescatterAlgorithm::kPairwise);
}

}  // namespace
}  // namespace hvd
