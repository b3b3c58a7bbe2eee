// SPDX-License-Identifier: Apache-2.0
// hvd.hpp in a job of one rank: types, results, futures and exceptions. Tests with several ranks
// are in ranks_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "capi/hvd.hpp"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

static_assert(hvd::kDType<bool> == HVD_BOOL);
static_assert(hvd::kDType<const float> == HVD_FLOAT32);
static_assert(hvd::kDType<double> == HVD_FLOAT64);
static_assert(hvd::kDType<long> == HVD_INT64 && hvd::kDType<unsigned long long> == HVD_UINT64);
static_assert(hvd::kDType<std::byte> == HVD_UINT8 && hvd::kDType<signed char> == HVD_INT8);
static_assert(hvd::kDType<short> == HVD_INT16 && hvd::kDType<char16_t> == HVD_UINT16);
static_assert(hvd::kDType<int> == HVD_INT32 && hvd::kDType<unsigned> == HVD_UINT32);
static_assert(hvd::kDType<hvd::half> == HVD_FLOAT16 && hvd::kDType<hvd::bfloat16> == HVD_BFLOAT16);
static_assert(!hvd::Element<std::string> && !hvd::Element<long double>);
static_assert(hvd::Input<std::vector<float>> && hvd::Input<const std::vector<float>&>);
static_assert(hvd::Output<std::span<float>> && !hvd::Output<std::span<const float>>);
static_assert(!hvd::Output<const std::array<int, 3>>);
static_assert(!std::is_copy_constructible_v<hvd::Future<>>);
static_assert(std::is_nothrow_move_constructible_v<hvd::Future<std::vector<int>>>);
static_assert(!std::is_copy_constructible_v<hvd::ProcessSet>);

class Alone : public testing::Test {
 protected:
  void SetUp() override { hvd::init(); }
  void TearDown() override { hvd::shutdown(); }
};

TEST_F(Alone, EveryOperationTakesAndGivesContainers) {
  std::vector<float> values = {1, 2, 3};
  hvd::allreduce(values, {.op = hvd::Op::kSum, .prescale = 2});
  EXPECT_THAT(values, ElementsAre(2, 4, 6));
  hvd::allreduce(std::span(values).first(1), {.postscale = 5});
  EXPECT_THAT(values, ElementsAre(10, 4, 6));
  const std::array<int64_t, 2> in = {7, 8};
  std::array<int64_t, 2> out{};
  hvd::allreduce(in, out, {.op = hvd::Op::kMax});
  EXPECT_EQ(in, out);
  hvd::broadcast(values, 0);
  EXPECT_THAT(hvd::allgather(in), ElementsAre(7, 8));
  EXPECT_THAT(hvd::reducescatter(in), ElementsAre(7, 8));
  const auto exchanged = hvd::alltoall(std::vector<double>{1, 2, 3, 4}, std::vector{2}, {.row = 2});
  EXPECT_THAT(exchanged.values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(exchanged.received_splits, ElementsAre(2));
  const std::array<bool, 2> flags = {true, false};
  EXPECT_THAT(hvd::allgather(flags), ElementsAre(true, false));
  std::vector<std::vector<int>> group = {{1}, {2, 3}};
  hvd::grouped_allreduce(std::span(group), {.postscale = 3});
  EXPECT_THAT(group, ElementsAre(ElementsAre(3), ElementsAre(6, 9)));
  hvd::barrier();
  EXPECT_EQ(hvd::join(), 0);
}

// Any number of unnamed operations may be in flight.
TEST_F(Alone, ManyTensorsAreNoReasonToWarn) {
  ::testing::internal::CaptureStderr();
  std::vector<std::vector<float>> values(1025, std::vector<float>{1});
  std::vector<hvd::Future<>> futures;
  for (auto& value : values) futures.push_back(hvd::allreduce_async(value));
  for (auto& future : futures) future.get();
  for (int i = 0; i < 3000; ++i) {
    hvd::allreduce(values[0], {.name = "tensor " + std::to_string(i)});
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(OperationsWithoutAName, HaveAFewNamesInTheTimeline) {
  const std::string path = testing::TempDir() + "hvd_hpp_test_timeline.json";
  ASSERT_EQ(setenv("HOROVOD_TIMELINE", path.c_str(), 1), 0);
  hvd::init();
  std::vector<float> value = {1};
  for (int i = 0; i < 3000; ++i) hvd::allreduce(value);
  std::vector<std::vector<float>> group(2, std::vector<float>{1});
  hvd::grouped_allreduce(std::span(group));
  hvd::shutdown();
  ASSERT_EQ(unsetenv("HOROVOD_TIMELINE"), 0);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("\"allreduce.noname.0\""));
  EXPECT_THAT(text, HasSubstr("\"grouped_allreduce.noname.0_2of2\""));
  EXPECT_LT(count(text, "\"process_name\""), 1000u);
  std::filesystem::remove(path);
}

TEST_F(Alone, FutureGivesItsResultOnce) {
  const std::vector<int> in = {4, 5};
  hvd::Future<std::vector<int>> future = hvd::allgather_async(in);
  EXPECT_TRUE(future.wait_for(10));
  hvd::Future<std::vector<int>> moved = std::move(future);
  EXPECT_FALSE(future.valid());  // NOLINT(bugprone-use-after-move): this is what is tested
  EXPECT_TRUE(moved.poll());
  EXPECT_THAT(moved.get(), ElementsAre(4, 5));
  EXPECT_FALSE(moved.valid());
  EXPECT_THROW(moved.get(), hvd::Error);
}

TEST_F(Alone, FailuresAreExceptionsThatSayWhatIsWrong) {
  std::vector<float> three(3);
  std::vector<float> two(2);
  try {
    hvd::broadcast(three, 4, {.name = "weights"});
    FAIL() << "there is no rank 4";
  } catch (const hvd::Error& error) {
    EXPECT_EQ(error.code(), HVD_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(), HasSubstr("\"weights\""));
    EXPECT_THAT(error.what(), HasSubstr("root rank 4"));
  }
  EXPECT_THROW(hvd::allreduce(three, two), hvd::Error);
  EXPECT_THROW((void)hvd::allgather(three, {.row = 2}), hvd::Error);
  EXPECT_THROW(hvd::allreduce(three, {.process_set = 9}), hvd::Error);
  EXPECT_THROW(hvd::ProcessSet::add({0}), hvd::Error);
}

TEST(WithoutAJob, EverythingThrows) {
  std::vector<float> values(3);
  EXPECT_FALSE(hvd::is_initialized());
  EXPECT_THROW(hvd::rank(), hvd::Error);
  EXPECT_THROW(hvd::allreduce(values), hvd::Error);
  EXPECT_THROW(hvd::join(), hvd::Error);
  hvd::shutdown();
}

}  // namespace
