// SPDX-License-Identifier: Apache-2.0
#include "engine/response_cache.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

std::shared_ptr<const Response> response(const std::string& name, Shape shape = {4}) {
  auto made = std::make_shared<Response>();
  made->request.name = name;
  made->request.shape = std::move(shape);
  return made;
}

std::vector<std::string> names(const std::vector<ResponseCache::Entry>& entries) {
  std::vector<std::string> found;
  for (const auto& entry : entries) found.push_back(entry.response->request.name);
  return found;
}

TEST(ResponseCache, GivesUpTheLeastRecentlyUsed) {
  ResponseCache cache(2);
  std::vector<ResponseCache::Entry> evicted;
  const ResponseCache::Entry* a = cache.insert(response("a"), evicted);
  cache.insert(response("b"), evicted);
  cache.touch(*a);
  cache.insert(response("c"), evicted);
  EXPECT_EQ(names(evicted), std::vector<std::string>{"b"});
  EXPECT_NE(cache.find("a"), nullptr);
  EXPECT_EQ(cache.crowded_out(), 1u);
}

TEST(ResponseCache, NeverUsesANumberTwice) {
  ResponseCache cache(1);
  std::vector<ResponseCache::Entry> evicted;
  const ResponseId first = cache.insert(response("a"), evicted)->id;
  const ResponseId second = cache.insert(response("a", {5}), evicted)->id;
  EXPECT_NE(first, second);
  EXPECT_EQ(cache.find(first), nullptr);
  EXPECT_EQ(cache.find(second)->response->request.shape, Shape{5});
  EXPECT_EQ(cache.crowded_out(), 0u);  // replaced, not crowded out
}

TEST(ResponseCache, WithoutRoomHoldsNothing) {
  ResponseCache cache(0);
  std::vector<ResponseCache::Entry> evicted;
  EXPECT_EQ(cache.insert(response("a"), evicted), nullptr);
  EXPECT_EQ(cache.find("a"), nullptr);
}

TEST(ResponseCache, AnswersOnlyWhatWasAskedBefore) {
  Response known = *response("x", {4, 3});
  Request same = known.request;
  EXPECT_TRUE(ResponseCache::answers(known, same, 0));
  const auto differs = [&](auto change) {
    Request other = same;
    change(other);
    return !ResponseCache::answers(known, other, 0);
  };
  EXPECT_TRUE(differs([](Request& r) { r.dtype = DType::kFloat64; }));
  EXPECT_TRUE(differs([](Request& r) { r.op = ReduceOp::kMax; }));
  EXPECT_TRUE(differs([](Request& r) { r.type = RequestType::kReducescatter; }));
  EXPECT_TRUE(differs([](Request& r) { r.prescale = 2; }));
  EXPECT_TRUE(differs([](Request& r) { r.postscale = 2; }));
  EXPECT_TRUE(differs([](Request& r) { r.device = 0; }));
  EXPECT_TRUE(differs([](Request& r) { r.root = 1; }));
  EXPECT_TRUE(differs([](Request& r) { r.shape = {3, 4}; }));
}

TEST(ResponseCache, AnswersAnAllgatherOfTheSameRowsAndAnyAlltoall) {
  Response known = *response("x", {4, 3});
  known.first_dimensions = {4, 7};
  known.request.type = RequestType::kAllgather;
  Request mine = known.request;
  EXPECT_TRUE(ResponseCache::answers(known, mine, 0));
  EXPECT_FALSE(ResponseCache::answers(known, mine, 1));
  mine.shape = {7, 3};
  EXPECT_TRUE(ResponseCache::answers(known, mine, 1));
  known.request.type = mine.type = RequestType::kAlltoall;
  mine.shape = {99, 3};
  EXPECT_TRUE(ResponseCache::answers(known, mine, 0));
  mine.shape = {99, 4};
  EXPECT_FALSE(ResponseCache::answers(known, mine, 0));
}

}  // namespace
}  // namespace hvd
