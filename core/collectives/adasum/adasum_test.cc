// SPDX-License-Identifier: Apache-2.0
#include "collectives/adasum/adasum.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "collectives/testing/reference.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::run_ranks;
using testing::soon;
using testing::Values;
using Vector = std::vector<double>;

HVD_TEST_WORLDS(Adasum, testing::worlds());
HVD_TEST_WORLDS(AdasumFailure, testing::worlds_to_break());

Bytes bytes(Vector& vector) { return std::as_writable_bytes(std::span(vector)); }

// The definition of Adasum, for two vectors of one tensor each.
Vector pair(const Vector& a, const Vector& b) {
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double a2 = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double b2 = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    sum[i] = (a2 == 0 ? 1 : 1 - dot / (2 * a2)) * a[i] + (b2 == 0 ? 1 : 1 - dot / (2 * b2)) * b[i];
  }
  return sum;
}

Vector tree(std::vector<Vector> of_rank) {
  const size_t p = std::bit_floor(of_rank.size());
  for (size_t r = p; r < of_rank.size(); ++r) of_rank[r - p] = pair(of_rank[r - p], of_rank[r]);
  for (size_t distance = 1; distance < p; distance *= 2) {
    for (size_t r = 0; r < p; r += 2 * distance) {
      of_rank[r] = pair(of_rank[r], of_rank[r + distance]);
    }
  }
  return of_rank[0];
}

// The tensor of `count` elements that starts at element `first` of a rank's fused vector.
Vector tensor_of(DType dtype, const Values& fused, size_t first, size_t count) {
  Vector tensor;
  for (size_t i = first; i < first + count; ++i) {
    tensor.push_back(testing::number_at(dtype, fused, i));
  }
  return tensor;
}

TEST_P(Adasum, EveryTensorIsReducedByItselfAlongTheTree) {
  const auto [kind, ranks] = GetParam();
  // Some tensors end in the middle of a half, some are empty, one is most of the vector.
  const std::vector<size_t> counts{1, 0, 5, 300, 0, 17, 2};
  const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
  constexpr double kPrescale = 0.5;
  constexpr double kPostscale = 2.0;
  const std::pair<DType, double> tolerances[] = {{DType::kFloat64, 1e-12},
                                                 {DType::kFloat32, 1e-5},
                                                 {DType::kFloat16, 2e-2},
                                                 {DType::kBfloat16, 1e-1}};
  for (const auto& [dtype, tolerance] : tolerances) {
    std::vector<Values> inputs;
    for (int r = 0; r < ranks; ++r) inputs.push_back(testing::random_values(dtype, total, r + 1));
    Vector expected;
    for (size_t t = 0, first = 0; t < counts.size(); first += counts[t], ++t) {
      std::vector<Vector> of_rank;
      for (const Values& input : inputs) {
        of_rank.push_back(tensor_of(dtype, input, first, counts[t]));
      }
      // Adasum of scaled vectors is the scaled Adasum, and the product of the factors is 1.
      const Vector tensor = tree(of_rank);
      expected.insert(expected.end(), tensor.begin(), tensor.end());
    }
    run_ranks(
        kind, ranks, [&, dtype = dtype, tolerance = tolerance](Transport& transport) -> Status {
          Values data = inputs[transport.rank()];
          Scratch scratch;
          HVD_TRY(adasum({transport, scratch, soon()}, data, counts, dtype, kPrescale, kPostscale));
          for (size_t i = 0; i < total; ++i) {
            const double got = testing::number_at(dtype, data, i);
            EXPECT_NEAR(got, expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
                << to_string(dtype) << " element " << i;
          }
          return Status::ok();
        });
  }
}

TEST_P(Adasum, FusedTensorsGiveWhatSeparateCallsGive) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [](Transport& transport) -> Status {
    const std::vector<size_t> counts{3, 1000, 1, 64};
    Vector fused;
    for (size_t i = 0; i < 1068; ++i) {
      fused.push_back(std::sin(static_cast<double>(i + 1) * (transport.rank() + 2)));
    }
    Vector separate = fused;
    Scratch scratch;
    HVD_TRY(adasum({transport, scratch, soon()}, bytes(fused), counts, DType::kFloat64, 1, 1));
    size_t first = 0;
    for (const size_t count : counts) {
      HVD_TRY(adasum({transport, scratch, soon()}, bytes(separate).subspan(first * 8, count * 8),
                     std::span(&count, 1), DType::kFloat64, 1, 1));
      first += count;
    }
    for (size_t i = 0; i < fused.size(); ++i) EXPECT_NEAR(fused[i], separate[i], 1e-12);
    return Status::ok();
  });
}

TEST_P(Adasum, EqualInputsGiveThatInputOrthogonalOnesAndZerosTheirSum) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [](Transport& transport) -> Status {
    const auto n = static_cast<size_t>(transport.size());
    const std::vector<size_t> counts{10, 3 * n, 4};
    Vector data(10 + 3 * n + 4, 0.0);
    Vector expected = data;
    for (size_t i = 0; i < 10; ++i) data[i] = expected[i] = 1.0 + static_cast<double>(i);
    for (size_t i = 0; i < 3 * n; ++i) {
      expected[10 + i] = static_cast<double>(i) - 2.0;
      if (i % n == static_cast<size_t>(transport.rank())) data[10 + i] = expected[10 + i];
    }
    Scratch scratch;
    HVD_TRY(adasum({transport, scratch, soon()}, bytes(data), counts, DType::kFloat64, 1, 1));
    for (size_t i = 0; i < data.size(); ++i) EXPECT_NEAR(data[i], expected[i], 1e-12);
    return Status::ok();
  });
}

TEST_P(AdasumFailure, ADeathAtAnyStepIsKnownToAll) {
  testing::expect_every_death_is_known(GetParam(), [](Transport& transport) {
    const std::vector<size_t> counts{3, 20};
    Vector data(23, 1.0 + transport.rank());
    Scratch scratch;
    return adasum({transport, scratch, soon()}, bytes(data), counts, DType::kFloat64, 1, 1);
  });
}

TEST(AdasumDType, IntegersAreRefusedWithARemedy) {
  run_ranks(testing::TransportKind::kInproc, 2, [](Transport& transport) {
    std::vector<int32_t> data(4);
    const std::vector<size_t> counts{4};
    Scratch scratch;
    const Status refused =
        adasum({transport, scratch, soon()}, std::as_writable_bytes(std::span(data)), counts,
               DType::kInt32, 1, 1);
    EXPECT_CODE(StatusCode::kInvalidArgument, refused);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("int32"));
  });
}

}  // namespace
}  // namespace hvd
