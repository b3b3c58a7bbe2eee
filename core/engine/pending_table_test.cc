// SPDX-License-Identifier: Apache-2.0
#include "engine/pending_table.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

class PendingTableTest : public ::testing::Test {
 protected:
  const ResponseCache::Entry& remember(const std::string& name) {
    auto response = std::make_shared<Response>();
    response->request.name = name;
    return *cache_.insert(std::move(response), evicted_);
  }

  ResponseCache cache_{8};
  std::vector<ResponseCache::Entry> evicted_;
  PendingTable table_;
};

TEST_F(PendingTableTest, FindsKnownTensorsByNumberAndUnknownOnesByName) {
  EXPECT_EQ(table_.find(ResponseId{0}), nullptr);
  EXPECT_EQ(table_.find("new"), nullptr);
  const ResponseCache::Entry& cached = remember("known");
  PendingTensor& known = table_.add(cached);
  PendingTensor& unknown = table_.add("new");
  EXPECT_EQ(table_.find(cached.id), &known);
  EXPECT_EQ(known.cached, &cached);
  EXPECT_EQ(table_.find("known"), nullptr) << "the cache finds the numbers of names";
  EXPECT_EQ(table_.find("new"), &unknown);
  EXPECT_EQ(unknown.cached, nullptr);
  table_.erase("new");
  EXPECT_EQ(table_.find("new"), nullptr);
}

TEST_F(PendingTableTest, CountsKnownTensorsOnlyWhileAPartyHasThem) {
  PendingTensor& known = table_.add(remember("known"));
  EXPECT_EQ(table_.waiting(), 0u);
  known.arrived = 2;
  table_.add("new").arrived = 1;
  EXPECT_EQ(table_.waiting(), 2u);
  known.clear_arrivals();
  EXPECT_EQ(table_.waiting(), 1u);
}

TEST_F(PendingTableTest, ClearingArrivalsKeepsTheCachedResponse) {
  const ResponseCache::Entry& cached = remember("known");
  PendingTensor& known = table_.add(cached);
  known.arrived = 3;
  known.complete = known.announced = true;
  known.group = 7;
  known.user_data = &known;
  known.merged = std::make_unique<MergedRequest>();
  known.clear_arrivals();
  EXPECT_EQ(known.cached, &cached);
  EXPECT_EQ(known.arrived, 0u);
  EXPECT_FALSE(known.complete || known.announced);
  EXPECT_EQ(known.group, 0u);
  EXPECT_EQ(known.user_data, nullptr);
  EXPECT_EQ(known.merged, nullptr);
}

TEST_F(PendingTableTest, KeepsATensorThatLosesItsNumberAtTheSameAddress) {
  const ResponseId id = remember("known").id;
  PendingTensor& pending = table_.add(*cache_.find(id));
  pending.arrived = 1;
  table_.forget_id(id, "known");
  EXPECT_EQ(table_.find(id), nullptr);
  EXPECT_EQ(table_.find("known"), &pending);
  EXPECT_EQ(pending.cached, nullptr);
  EXPECT_EQ(pending.arrived, 1u);
}

TEST_F(PendingTableTest, DropsATensorThatLosesItsNumberWhenNoPartyHasIt) {
  const ResponseId id = remember("known").id;
  table_.add(*cache_.find(id));
  table_.forget_id(id, "known");
  EXPECT_EQ(table_.find(id), nullptr);
  EXPECT_EQ(table_.find("known"), nullptr);
}

TEST_F(PendingTableTest, VisitsEveryTensorOnce) {
  table_.add(remember("a"));
  table_.add(remember("b"));
  table_.add("c");
  int all = 0;
  int known = 0;
  table_.for_each([&all](PendingTensor&) { ++all; });
  table_.for_each_known([&known](PendingTensor&) { ++known; });
  EXPECT_EQ(all, 3);
  EXPECT_EQ(known, 2);
}

}  // namespace
}  // namespace hvd
