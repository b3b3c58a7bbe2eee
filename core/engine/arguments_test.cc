// SPDX-License-Identifier: Apache-2.0
#include "engine/arguments.h"

#include <gtest/gtest.h>

#include <limits>

#include "testing/assertions.h"

namespace hvd {
namespace {

constexpr int kRanks[] = {2, 5, 9};

TensorTask task(RequestType type, Shape shape) {
  static const std::byte memory{};
  TensorTask made;
  made.request.name = "x";
  made.request.type = type;
  made.request.shape = std::move(shape);
  made.in = &memory;
  return made;
}

TEST(Arguments, FillsInEqualSplits) {
  TensorTask made = task(RequestType::kAlltoall, {6, 2});
  ASSERT_OK(check_arguments(made, kRanks));
  EXPECT_EQ(made.splits, (std::vector<int32_t>{2, 2, 2}));
}

TEST(Arguments, RefusesSplitsThatCannotBe) {
  TensorTask odd = task(RequestType::kAlltoall, {7});
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(odd, kRanks));
  for (const std::vector<int32_t>& splits :
       {std::vector<int32_t>{1, 2}, {1, 2, 5}, {-1, 1, 1}, {1, 1, 1, 1}}) {
    TensorTask made = task(RequestType::kAlltoall, {7});
    made.splits = splits;
    EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
  }
  TensorTask fewer = task(RequestType::kAlltoall, {7});
  fewer.splits = {1, 2, 0};
  EXPECT_OK(check_arguments(fewer, kRanks));
}

TEST(Arguments, RefusesEqualSplitsThatAreTooManyRows) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  TensorTask largest = task(RequestType::kAlltoall, {3 * most, 0});
  ASSERT_OK(check_arguments(largest, kRanks));
  EXPECT_EQ(largest.splits.front(), most);
  // Cut to 32 bits that would be 0 and 1 rows.
  for (const int64_t each : {int64_t{1} << 32, (int64_t{1} << 32) + 1}) {
    TensorTask made = task(RequestType::kAlltoall, {3 * each, 0});
    EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
  }
}

TEST(Arguments, WantsARootWithinTheSet) {
  TensorTask made = task(RequestType::kBroadcast, {1});
  made.request.root = 1;
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
  made.request.root = 5;
  EXPECT_OK(check_arguments(made, kRanks));
}

TEST(Arguments, ReducescatterTakesSumAndAverageOfRows) {
  TensorTask made = task(RequestType::kReducescatter, {4});
  made.request.op = ReduceOp::kMax;
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
  made.request.op = ReduceOp::kAverage;
  EXPECT_OK(check_arguments(made, kRanks));
  made.request.shape = {};
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
  made.request.shape = {4};
  made.request.dtype = DType::kBool;
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
}

TEST(Arguments, AdasumTakesFloatsOnly) {
  TensorTask made = task(RequestType::kAdasum, {4});
  EXPECT_OK(check_arguments(made, kRanks));
  made.request.dtype = DType::kInt32;
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(made, kRanks));
}

TEST(Arguments, WantsANameAnInputAndPossibleDimensions) {
  TensorTask nameless = task(RequestType::kAllreduce, {1});
  nameless.request.name.clear();
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(nameless, kRanks));
  TensorTask negative = task(RequestType::kAllreduce, {-1});
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(negative, kRanks));
  TensorTask without_input = task(RequestType::kAllreduce, {1});
  without_input.in = nullptr;
  EXPECT_CODE(StatusCode::kInvalidArgument, check_arguments(without_input, kRanks));
  without_input.request.shape = {0};
  EXPECT_OK(check_arguments(without_input, kRanks));
}

}  // namespace
}  // namespace hvd
