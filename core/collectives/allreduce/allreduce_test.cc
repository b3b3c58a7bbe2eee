// SPDX-License-Identifier: Apache-2.0
// Guarantees of the algorithms beyond the right result, which ../conformance_test.cc checks.
#include "collectives/allreduce/allreduce.h"

#include <cstring>
#include <random>

#include "collectives/testing/reference.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using testing::run_ranks;
using testing::TransportKind;
using testing::Values;

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// Random bits: every magnitude, so that the order of additions changes the result, and NaN,
// infinity and -0.
Values random_bits(size_t bytes, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  Values values(bytes);
  for (std::byte& value : values) value = static_cast<std::byte>(random());
  return values;
}

// The result of every rank; inputs[r] is the input of rank r.
std::vector<Values> results(AllreduceAlgorithm algorithm, int n, DType dtype, ReduceOp op,
                            const std::vector<Values>& inputs) {
  std::vector<Values> data = inputs;
  run_ranks(TransportKind::kInproc, n, [&](Transport& transport) -> Status {
    HVD_TRY_ASSIGN(const Reduction reduction, Reduction::make(op, dtype, n, 0.7, 1.3));
    Scratch scratch;
    return run_allreduce({transport, scratch, soon()}, algorithm, data[transport.rank()],
                         reduction);
  });
  return data;
}

constexpr DType kFloats[] = {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64};

TEST(Deterministic, BothDoublingAlgorithmsGiveTheSameBitsOnEveryRank) {
  for (const DType dtype : kFloats) {
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kProduct}) {
      for (const int n : {2, 3, 4, 7, 8}) {
        std::vector<Values> inputs;
        for (int rank = 0; rank < n; ++rank) {
          inputs.push_back(random_bits(1003 * size_of(dtype), rank));
        }
        const auto doubling = results(AllreduceAlgorithm::kRecursiveDoubling, n, dtype, op, inputs);
        const auto halving = results(AllreduceAlgorithm::kHalvingDoubling, n, dtype, op, inputs);
        for (int rank = 0; rank < n; ++rank) {
          EXPECT_TRUE(testing::same(dtype, doubling[rank], doubling[0]))
              << to_string(dtype) << " rank " << rank;
          EXPECT_TRUE(testing::same(dtype, halving[rank], doubling[0]))
              << to_string(dtype) << " rank " << rank;
        }
      }
    }
  }
}

TEST(Deterministic, BitsDoNotDependOnTheElementsPlace) {
  constexpr size_t kCount = 517;
  for (const auto algorithm :
       {AllreduceAlgorithm::kRecursiveDoubling, AllreduceAlgorithm::kHalvingDoubling}) {
    for (const DType dtype : kFloats) {
      const size_t size = size_of(dtype);
      constexpr int kRanks = 7;
      std::vector<Values> inputs;
      for (int rank = 0; rank < kRanks; ++rank) {
        const Values one = testing::random_values(dtype, 1, 100 + rank);
        Values scaled = testing::reference_scale(dtype, one, 1.0 + 0.37 * rank);
        Values all(kCount * size);
        for (size_t i = 0; i < kCount; ++i) std::memcpy(&all[i * size], scaled.data(), size);
        inputs.push_back(std::move(all));
      }
      const auto outcome = results(algorithm, kRanks, dtype, ReduceOp::kAverage, inputs);
      for (size_t i = 1; i < kCount; ++i) {
        ASSERT_EQ(std::memcmp(&outcome[3][i * size], &outcome[3][0], size), 0)
            << to_string(algorithm) << " " << to_string(dtype) << " element " << i;
      }
    }
  }
}

// For every placement of the ranks: the choice of algorithm, which depends on the size, must not
// change the bits.
TEST(Deterministic, BitsDependNeitherOnThePlaceNorOnTheSizeOfTheBuffer) {
  constexpr int kRanks = 5;
  for (const TransportKind kind :
       {TransportKind::kTcp, TransportKind::kShm, TransportKind::kMesh}) {
    run_ranks(kind, kRanks, [](Transport& transport) {
      const auto reduction = Reduction::make(ReduceOp::kAverage, DType::kFloat32, kRanks);
      ASSERT_OK(reduction);
      Scratch scratch;
      const AllreduceOptions options{.deterministic = true};
      // A value whose sum rounds differently in another order.
      const float mine = 0.1F + 1e6F * static_cast<float>(transport.rank() % 3);
      float expected = 0;
      for (const size_t count : {size_t{1}, size_t{999}, size_t{100'000}}) {
        std::vector<float> values(count, mine);
        ASSERT_OK(allreduce({transport, scratch, soon(), options},
                            std::as_writable_bytes(std::span(values)), *reduction));
        if (count == 1) expected = values[0];
        for (const float value : values) ASSERT_EQ(value, expected);
      }
    });
  }
}

TEST(Allreduce, RefusesBrokenElementsAndAlgorithmsThatCannotRun) {
  run_ranks(TransportKind::kInproc, 1, [](Transport& transport) {
    const auto sum = Reduction::make(ReduceOp::kSum, DType::kFloat32, 1);
    Scratch scratch;
    std::byte odd[7]{};
    EXPECT_CODE(StatusCode::kInvalidArgument, allreduce({transport, scratch, soon()}, odd, *sum));
  });
  run_ranks(TransportKind::kInproc, 2, [](Transport& transport) {
    const auto sum = Reduction::make(ReduceOp::kSum, DType::kFloat32, 2);
    Scratch scratch;
    const AllreduceOptions options{.algorithm = AllreduceAlgorithm::kTwoLevel};
    std::byte data[8]{};
    EXPECT_CODE(StatusCode::kPrecondition,
                allreduce({transport, scratch, soon(), options}, data, *sum));
  });
}

}  // namespace
}  // namespace hvd
