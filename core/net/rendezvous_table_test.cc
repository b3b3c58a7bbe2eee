// SPDX-License-Identifier: Apache-2.0
#include "net/rendezvous_table.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Answer {
  uint64_t client;
  uint64_t id;
  StatusCode code;
  std::string message;
  ByteBuffer result;
};

// A table whose answers the test reads.
class RendezvousTableTest : public ::testing::Test {
 protected:
  template <typename... Args>
  Status ask(uint64_t client, RendezvousOp op, const Args&... args) {
    Encoder encoder;
    encoder.put(++id_).put(static_cast<uint8_t>(op));
    (encoder.put(args), ...);
    return table_.handle(client, encoder.bytes());
  }

  void record(uint64_t client, const ByteBuffer& bytes) {
    Answer answer{client, 0, {}, {}, {}};
    uint8_t code = 0;
    Decoder decoder(bytes);
    EXPECT_OK(decoder.get(answer.id));
    EXPECT_OK(decoder.get(code));
    EXPECT_OK(decoder.get(answer.message));
    EXPECT_OK(decoder.get(answer.result));
    EXPECT_OK(decoder.finish());
    answer.code = static_cast<StatusCode>(code);
    answers_.push_back(std::move(answer));
  }

  Answer last() {
    EXPECT_FALSE(answers_.empty());
    Answer answer = answers_.back();
    answers_.clear();
    return answer;
  }

  std::vector<std::string> last_values() {
    std::vector<std::string> values;
    EXPECT_OK(Decoder(last().result).get(values));
    return values;
  }

  RendezvousLimits limits_{.key_bytes = 8, .value_bytes = 16, .keys = 4, .total_bytes = 40};
  RendezvousTable table_{
      limits_, [this](uint64_t client, const ByteBuffer& bytes) { record(client, bytes); }};
  std::vector<Answer> answers_;
  uint64_t id_ = 0;
};

TEST_F(RendezvousTableTest, WaitEndsWithTheLastKeyAndNotBefore) {
  const std::vector<std::string> keys{"a", "b", "c"};
  ASSERT_OK(ask(1, RendezvousOp::kWaitAll, keys));
  const uint64_t wait_id = id_;
  ASSERT_OK(ask(2, RendezvousOp::kSet, "c", "3"));
  ASSERT_OK(ask(2, RendezvousOp::kSet, "a", "1"));
  EXPECT_EQ(answers_.size(), 2u);  // those of client 2
  ASSERT_OK(ask(2, RendezvousOp::kSet, "b", "2"));
  ASSERT_EQ(answers_.size(), 4u);
  EXPECT_EQ(answers_[2].client, 1u);
  EXPECT_EQ(answers_[2].id, wait_id);
  std::swap(answers_[2], answers_[3]);
  EXPECT_THAT(last_values(), ElementsAre("1", "2", "3"));
  EXPECT_EQ(table_.waiters(), 0u);
}

TEST_F(RendezvousTableTest, KeyThatIsRemovedMeanwhileHasToComeBack) {
  ASSERT_OK(ask(2, RendezvousOp::kSet, "a", "old"));
  ASSERT_OK(ask(1, RendezvousOp::kWaitAll, std::vector<std::string>{"a", "b"}));
  ASSERT_OK(ask(2, RendezvousOp::kRemove, "a"));
  ASSERT_OK(ask(2, RendezvousOp::kSet, "b", "2"));
  EXPECT_EQ(table_.waiters(), 1u);
  ASSERT_OK(ask(2, RendezvousOp::kSet, "a", "new"));
  EXPECT_EQ(table_.waiters(), 0u);
  std::swap(answers_[answers_.size() - 2], answers_.back());
  EXPECT_THAT(last_values(), ElementsAre("new", "2"));
}

TEST_F(RendezvousTableTest, ClientThatLeavesOrAsksSomethingElseWaitsNoLonger) {
  ASSERT_OK(ask(1, RendezvousOp::kWaitAll, std::vector<std::string>{"a"}));
  ASSERT_OK(ask(2, RendezvousOp::kWaitAll, std::vector<std::string>{"a"}));
  ASSERT_OK(ask(3, RendezvousOp::kWaitAll, std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(table_.waiters(), 3u);
  table_.forget(1);
  ASSERT_OK(ask(2, RendezvousOp::kGet, "x"));
  EXPECT_EQ(table_.waiters(), 1u);
  ASSERT_OK(ask(3, RendezvousOp::kStopWait));
  uint32_t missing = 0;
  std::vector<std::string> names;
  const Answer answer = last();
  Decoder decoder(answer.result);
  ASSERT_OK(decoder.get(missing));
  ASSERT_OK(decoder.get(names));
  EXPECT_EQ(missing, 2u);
  EXPECT_THAT(names, ElementsAre("b", "a"));
  ASSERT_OK(ask(9, RendezvousOp::kSet, "a", "1"));
  EXPECT_EQ(answers_.size(), 1u);  // no wait was left
}

TEST_F(RendezvousTableTest, ARankThatLeavesEndsTheWaitsForWhatItWasToSetAndNoOthers) {
  const std::vector<std::string> keys{"a", "b"};
  for (const int rank : {0, 1, 2}) ASSERT_OK(ask(rank, RendezvousOp::kEnter, "job", int32_t{rank}));
  ASSERT_OK(ask(9, RendezvousOp::kSet, "b", "1"));
  ASSERT_OK(ask(0, RendezvousOp::kWaitFor, keys, std::vector<int32_t>{2, 1}));
  ASSERT_OK(
      ask(1, RendezvousOp::kWaitFor, keys, std::vector<int32_t>{0, 2}));  // rank 0 has set that key
  answers_.clear();
  ASSERT_OK(ask(2, RendezvousOp::kLeave));
  ASSERT_EQ(answers_.size(), 2u);  // and the wait for rank 0
  EXPECT_EQ(answers_[0].client, 0u);
  EXPECT_EQ(answers_[0].code, StatusCode::kPeerLost);
  int32_t rank = -1;
  EXPECT_OK(Decoder(answers_[0].result).get(rank));
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(table_.waiters(), 1u);
}

TEST_F(RendezvousTableTest, ALostRankEndsTheWaitsOfItsGroupAndOfNoOtherGroup) {
  const std::vector<std::string> keys{"a", "b"};
  for (const int rank : {0, 1, 2, 3})
    ASSERT_OK(ask(rank, RendezvousOp::kEnter, "job", int32_t{rank}));
  ASSERT_OK(ask(4, RendezvousOp::kEnter, "other", int32_t{2}));
  for (const int client : {0, 4, 5}) ASSERT_OK(ask(client, RendezvousOp::kWaitAll, keys));
  ASSERT_OK(ask(3, RendezvousOp::kLeave));
  answers_.clear();
  table_.forget(3);  // has left cleanly
  EXPECT_TRUE(answers_.empty());
  table_.forget(2);
  ASSERT_EQ(answers_.size(), 1u);
  const auto expect_loss_of_2 = [&](uint64_t client) {
    const Answer answer = last();
    EXPECT_EQ(answer.client, client);
    EXPECT_EQ(answer.code, StatusCode::kPeerLost);
    int32_t rank = -1;
    EXPECT_OK(Decoder(answer.result).get(rank));
    EXPECT_EQ(rank, 2);
  };
  expect_loss_of_2(0);
  EXPECT_EQ(table_.waiters(), 2u);  // 4, of another group, and 5, of none
  // Clients that enter later do not wait either, and the first loss is the one that is reported.
  ASSERT_OK(ask(6, RendezvousOp::kEnter, "job", int32_t{6}));
  ASSERT_OK(ask(6, RendezvousOp::kLose, int32_t{1}, "seems dead"));
  expect_loss_of_2(6);
  ASSERT_OK(ask(6, RendezvousOp::kWaitAll, keys));
  expect_loss_of_2(6);
  // Keys that exist are still returned.
  for (const std::string& key : keys) ASSERT_OK(ask(5, RendezvousOp::kSet, key, "1"));
  answers_.clear();
  ASSERT_OK(ask(6, RendezvousOp::kWaitAll, keys));
  EXPECT_THAT(last_values(), ElementsAre("1", "1"));
}

TEST_F(RendezvousTableTest, EachLimitIsAnErrorThatNamesIt) {
  const auto refusal = [&](const std::string& key, const std::string& value) {
    EXPECT_OK(ask(1, RendezvousOp::kSet, key, value));
    return last().message;
  };
  EXPECT_THAT(refusal(std::string(9, 'k'), ""), HasSubstr("longer than the limit of 8"));
  EXPECT_THAT(refusal("k", std::string(17, 'v')), HasSubstr("longer than the limit of 16"));
  EXPECT_EQ(refusal("a", std::string(16, 'v')), "");
  EXPECT_EQ(refusal("b", std::string(16, 'v')), "");
  EXPECT_EQ(table_.total_bytes(), 34u);
  EXPECT_THAT(refusal("c", "123456"), HasSubstr("limit of 40 bytes"));
  EXPECT_EQ(refusal("a", std::string(15, 'v')), "");  // replacing makes room
  EXPECT_EQ(refusal("c", "123456"), "");
  EXPECT_EQ(table_.total_bytes(), 40u);
  ASSERT_OK(ask(1, RendezvousOp::kRemove, "a"));
  EXPECT_EQ(refusal("d", ""), "");
  EXPECT_EQ(refusal("e", ""), "");
  EXPECT_THAT(refusal("f", ""), HasSubstr("limit of 4 keys"));
  EXPECT_EQ(refusal("d", "1"), "");  // not a new key
}

TEST_F(RendezvousTableTest, CounterCountsAndRefusesWhatIsNoCounter) {
  const auto add = [&](const std::string& key, int64_t delta) {
    EXPECT_OK(ask(1, RendezvousOp::kAdd, key, delta));
    return last();
  };
  add("n", 5);
  int64_t sum = 0;
  ASSERT_OK(Decoder(add("n", -7).result).get(sum));
  EXPECT_EQ(sum, -2);
  ASSERT_OK(ask(1, RendezvousOp::kGet, "n"));
  EXPECT_EQ(text_of(last().result), "-2");
  EXPECT_EQ(add("n", std::numeric_limits<int64_t>::min()).code, StatusCode::kPrecondition);
  ASSERT_OK(ask(1, RendezvousOp::kSet, "t", "12x"));
  EXPECT_THAT(add("t", 1).message, HasSubstr("not a counter"));
}

TEST_F(RendezvousTableTest, ListIsSortedAndKeepsToThePrefix) {
  for (const char* key : {"b/2", "a", "b/1", "c"}) ASSERT_OK(ask(1, RendezvousOp::kSet, key, ""));
  ASSERT_OK(ask(1, RendezvousOp::kList, "b/"));
  EXPECT_THAT(last_values(), ElementsAre("b/1", "b/2"));
  ASSERT_OK(ask(1, RendezvousOp::kList, ""));
  EXPECT_EQ(last_values().size(), 4u);
}

TEST_F(RendezvousTableTest, MalformedRequestFailsAndLeavesTheTableAsItWas) {
  EXPECT_CODE(StatusCode::kInvalidArgument, ask(1, static_cast<RendezvousOp>(99)));
  EXPECT_CODE(StatusCode::kInvalidArgument, ask(1, RendezvousOp::kSet, "a"));
  EXPECT_CODE(StatusCode::kInvalidArgument, ask(1, RendezvousOp::kSet, "a", "b", uint8_t{0}));
  EXPECT_CODE(StatusCode::kInvalidArgument, table_.handle(1, bytes_of("short")));
  EXPECT_EQ(table_.keys(), 0u);
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace hvd
