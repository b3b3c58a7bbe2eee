// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction.h"

#include <cstring>
#include <vector>

#include "collectives/testing/reference.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::random_values;
using testing::reference_reduce;
using testing::same;
using testing::Values;

constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

TEST(Reduction, PrepareCombineAllAndFinishMakeTheWholeReduction) {
  constexpr size_t kCount = 37;
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    for (const ReduceOp op : kOps) {
      for (const auto& [prescale, postscale] :
           {std::pair{1.0, 1.0}, std::pair{0.5, 1.0}, std::pair{1.0, 3.0}, std::pair{2.0, 0.25}}) {
        std::vector<Values> in;
        for (uint64_t rank = 0; rank < 3; ++rank) in.push_back(random_values(dtype, kCount, rank));
        const Values expected = reference_reduce(op, dtype, in, prescale, postscale);
        auto reduction = Reduction::make(op, dtype, 3, prescale, postscale);
        ASSERT_OK(reduction);
        EXPECT_EQ(reduction->needs_prepare(), prescale != 1.0);
        EXPECT_EQ(reduction->needs_finish(), postscale != 1.0 || op == ReduceOp::kAverage);
        for (Values& values : in) reduction->prepare(values);
        const std::byte* const pointers[] = {in[0].data(), in[1].data(), in[2].data()};
        Values all(in[0].size());
        reduction->combine_all(all, pointers);
        reduction->finish(all);
        EXPECT_TRUE(same(dtype, all, expected)) << to_string(op) << " " << prescale << postscale;
        // Two at a time gives the same bits, because these values need no rounding before finish().
        reduction->combine(in[0], in[1]);
        reduction->combine(in[0], in[2]);
        reduction->finish(in[0]);
        EXPECT_TRUE(same(dtype, in[0], expected)) << to_string(op) << " " << prescale << postscale;
      }
    }
  }
}

TEST(Reduction, IntegerAverageOfEqualInputsIsThatInput) {
  // A multiplication by 1/n gives one less for these numbers of ranks.
  for (const int ranks : {49, 98, 103, 107}) {
    auto reduction = Reduction::make(ReduceOp::kAverage, DType::kInt64, ranks);
    ASSERT_OK(reduction);
    const std::vector<int64_t> value = {1, -1, 7, int64_t{1} << 54};
    std::vector<int64_t> sum(value.size());
    const std::vector<const std::byte*> in(static_cast<size_t>(ranks),
                                           reinterpret_cast<const std::byte*>(value.data()));
    const Bytes out = std::as_writable_bytes(std::span(sum));
    reduction->combine_all(out, in);
    reduction->finish(out);
    EXPECT_EQ(sum, value) << ranks;
  }
}

TEST(Reduction, RefusesWhatIsNoElementwiseReduction) {
  EXPECT_CODE(StatusCode::kInvalidArgument, Reduction::make(ReduceOp::kAdasum, DType::kFloat32, 2));
  EXPECT_CODE(StatusCode::kInvalidArgument, Reduction::make(ReduceOp::kSum, DType::kFloat32, 0));
}

TEST(Reference, RandomValuesComeFromTheSeedAndNearSeesOneWrongElement) {
  for (int code = 0; code < kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    Values a = random_values(dtype, 100, 1);
    EXPECT_EQ(a, random_values(dtype, 100, 1));
    EXPECT_NE(a, random_values(dtype, 100, 2));
    Values b = a;
    EXPECT_TRUE(testing::near(dtype, a, b, 4));
    // The top bit of element 42 is a sign or the highest place of a number; for bool its value.
    std::byte& top = b[42 * size_of(dtype) + size_of(dtype) - 1];
    top ^= dtype == DType::kBool ? std::byte{1} : std::byte{0x80};
    EXPECT_FALSE(testing::near(dtype, a, b, 4)) << to_string(dtype);
    EXPECT_FALSE(testing::near(dtype, a, ConstBytes(a).first(size_of(dtype)), 4));
  }
}

}  // namespace
}  // namespace hvd
