// SPDX-License-Identifier: Apache-2.0
// Allreduce of many tensors as one buffer. ../conformance_test.cc checks the result for one buffer.
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::run_ranks;
using testing::soon;
using testing::TransportKind;
using testing::Values;

constexpr int kRanks = 3;

// The tensors that every rank reduces at once, each in place or not.
struct Batch {
  DType dtype;
  ReduceOp op;
  double prescale;
  double postscale;
  std::vector<size_t> counts;
  std::vector<bool> in_place;

  size_t total() const { return std::accumulate(counts.begin(), counts.end(), size_t{0}); }
  Values input(int rank) const { return testing::random_values(dtype, total(), 77 + rank); }
  Values expected() const {
    std::vector<Values> inputs;
    for (int rank = 0; rank < kRanks; ++rank) inputs.push_back(input(rank));
    return testing::reference_reduce(op, dtype, inputs, prescale, postscale);
  }
};

// `all` cut into the tensors of the batch, each in its own memory. Empty ones are null.
struct Tensors {
  std::vector<Values> in;
  std::vector<Values> out;
  std::vector<Piece> pieces;

  Tensors(const Batch& batch, const Values& all) : in(batch.counts.size()), out(in.size()) {
    auto from = all.begin();
    for (size_t i = 0; i < in.size(); ++i) {
      const auto bytes = static_cast<std::ptrdiff_t>(batch.counts[i] * size_of(batch.dtype));
      in[i].assign(from, from + bytes);
      from += bytes;
      if (!batch.in_place[i]) out[i].resize(in[i].size());
      std::byte* to = batch.in_place[i] ? in[i].data() : out[i].data();
      pieces.push_back({in[i].data(), to, in[i].size()});
    }
  }

  Values results() const {
    Values all;
    for (const Piece& piece : pieces) all.insert(all.end(), piece.out, piece.out + piece.bytes);
    return all;
  }
};

// Sizes around a block, a chunk and the limit of one phase, mixed with tensors of a few elements.
std::vector<Batch> batches() {
  std::mt19937 random(5);
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax,
                               ReduceOp::kProduct, ReduceOp::kMin};
  constexpr double kScales[][2] = {{1.0, 1.0}, {0.5, 1.0}, {1.0, 3.0}, {0.25, 3.0}};
  constexpr size_t kMost[] = {0, 7, 300, 9'000, 150'000};
  std::vector<Batch> all;
  for (int i = 0; i < 3 * kDTypeCount; ++i) {
    const auto& [prescale, postscale] = kScales[random() % 4];
    Batch batch{
        static_cast<DType>(i % kDTypeCount), kOps[random() % 5], prescale, postscale, {}, {}};
    const size_t tensors = i == 0 ? 0 : 1 + random() % (i % 3 == 0 ? 1 : 40);
    for (size_t tensor = 0; tensor < tensors; ++tensor) {
      const size_t most = kMost[random() % (tensor < 3 ? 5 : 3)];
      batch.counts.push_back(random() % (most + 1));
      batch.in_place.push_back(random() % 2 == 0);
    }
    all.push_back(std::move(batch));
  }
  return all;
}

class AllreducePieces : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Over, AllreducePieces,
                         ::testing::Values(TransportKind::kShm, TransportKind::kMesh,
                                           TransportKind::kInproc),
                         [](const auto& kind) { return testing::to_string(kind.param); });

TEST_P(AllreducePieces, GiveTheReferencesResultAndLeaveInputsThatAreNotOutputs) {
  const std::vector<Batch> all = batches();
  std::vector<Values> expected;
  for (const Batch& batch : all) expected.push_back(batch.expected());
  run_ranks(GetParam(), kRanks, [&](Transport& transport) {
    Scratch fusion;
    Scratch scratch;
    const auto selector = AllreduceSelector::make(
        transport.topology(), transport.hosts_share_memory(), {}, offered_allreduce_algorithms());
    ASSERT_OK(selector);
    for (size_t i = 0; i < all.size(); ++i) {
      const Batch& batch = all[i];
      const auto reduction =
          Reduction::make(batch.op, batch.dtype, kRanks, batch.prescale, batch.postscale);
      ASSERT_OK(reduction);
      const Values input = batch.input(transport.rank());
      const Tensors before(batch, input);
      Tensors tensors(batch, input);
      ASSERT_OK(allreduce_pieces({transport, scratch, soon()}, selector->choose(input.size()),
                                 tensors.pieces, *reduction, fusion));
      EXPECT_TRUE(testing::near(batch.dtype, tensors.results(), expected[i], kRanks))
          << "batch " << i << ": " << batch.counts.size() << " tensors, " << to_string(batch.op);
      for (size_t k = 0; k < batch.counts.size(); ++k) {
        EXPECT_TRUE(batch.in_place[k] || tensors.in[k] == before.in[k]) << "batch " << i;
      }
    }
  });
}

// Values whose sum rounds differently in another order.
TEST_P(AllreducePieces, BitsAreThoseOfEachTensorAloneInDeterministicMode) {
  run_ranks(GetParam(), kRanks, [](Transport& transport) {
    const AllreduceOptions options{.deterministic = true};
    const auto selector =
        AllreduceSelector::make(transport.topology(), transport.hosts_share_memory(), options,
                                offered_allreduce_algorithms());
    ASSERT_OK(selector);
    Batch batch{DType::kFloat32, ReduceOp::kAverage, 0.7, 1.3, {}, {}};
    for (size_t i = 0; i < 40; ++i) {
      batch.counts.push_back(i % 7 == 0 ? 3'001 : i);
      batch.in_place.push_back(i % 2 == 0);
    }
    const auto reduction = Reduction::make(batch.op, batch.dtype, kRanks, 0.7, 1.3);
    ASSERT_OK(reduction);
    std::mt19937 random(static_cast<unsigned>(transport.rank()));
    std::uniform_real_distribution<float> awkward(-1e6F, 1e6F);
    Values input(batch.total() * sizeof(float));
    for (size_t i = 0; i < batch.total(); ++i) {
      const float value = awkward(random) * (i % 3 == 0 ? 1e-6F : 1.0F);
      std::memcpy(&input[i * sizeof(float)], &value, sizeof(float));
    }
    Scratch fusion;
    Scratch scratch;
    Tensors fused(batch, input);
    ASSERT_OK(allreduce_pieces({transport, scratch, soon(), options},
                               selector->choose(input.size()), fused.pieces, *reduction, fusion));
    Tensors alone(batch, input);
    for (const Piece& piece : alone.pieces) {
      ASSERT_OK(allreduce_pieces({transport, scratch, soon(), options},
                                 selector->choose(piece.bytes), std::span(&piece, 1), *reduction,
                                 fusion));
    }
    EXPECT_EQ(fused.results(), alone.results());
  });
}

TEST(AllreduceOfPieces, ABrokenElementIsRefused) {
  run_ranks(TransportKind::kInproc, 1, [](Transport& transport) {
    const auto sum = Reduction::make(ReduceOp::kSum, DType::kFloat32, 1);
    Scratch fusion;
    Scratch scratch;
    std::byte data[8]{};
    const Piece pieces[] = {{data, data, 3}, {data + 4, data + 4, 1}};
    EXPECT_CODE(StatusCode::kInvalidArgument,
                allreduce_pieces({transport, scratch, soon()}, AllreduceAlgorithm::kRing, pieces,
                                 *sum, fusion));
  });
}

}  // namespace
}  // namespace hvd
