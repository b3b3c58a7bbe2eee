// SPDX-License-Identifier: Apache-2.0
#include "engine/stall/stall_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <set>

#include "testing/assertions.h"

namespace hvd {
namespace {

using Clock = StallWatch::Clock;
using Seconds = std::chrono::duration<double>;

// Ranks whose messages arrive at once, except those to and from ranks that are frozen.
class Ranks {
 public:
  explicit Ranks(const Topology& topology) {
    std::vector<int> job_ranks(topology.size());
    std::iota(job_ranks.begin(), job_ranks.end(), 0);
    for (int rank = 0; rank < topology.size(); ++rank) {
      watches_.push_back(std::make_unique<StallWatch>(Seconds(60), rank, topology, job_ranks));
    }
    waited_.assign(topology.size(), Seconds(0));
  }

  void freeze(int rank) { frozen_.insert(rank); }
  void waits(int rank, Seconds time) { waited_[rank] = time; }

  void pass(Seconds time) {
    now_ += std::chrono::duration_cast<Clock::duration>(time);
    for (int rank = 0; rank < size(); ++rank) {
      if (frozen_.count(rank) > 0) continue;
      ASSERT_OK(watches_[rank]->tick(
          now_, waited_[rank], [&] { return report_of(rank); }, sender(rank)));
    }
    deliver();
  }

  std::optional<std::vector<RankReport>> answers() { return watches_[0]->take_answers(); }
  int size() const { return static_cast<int>(watches_.size()); }
  int questions = 0;

 private:
  struct Message {
    int from;
    int to;
    ByteBuffer bytes;
  };

  RankReport report_of(int rank) const {
    RankReport report;
    report.rank = rank;
    report.answered = true;
    return report;
  }
  std::function<Status(int, ConstBytes, Urgency)> sender(int from) {
    return [this, from](int to, ConstBytes bytes, Urgency urgency) {
      EXPECT_EQ(urgency, Urgency::kUrgent);  // it must wake an idle rank
      if (from == 0) ++questions;
      messages_.push_back({from, to, ByteBuffer(bytes.begin(), bytes.end())});
      return Status::ok();
    };
  }
  void deliver() {
    while (!messages_.empty()) {
      const Message message = std::move(messages_.front());
      messages_.pop_front();
      if (frozen_.count(message.to) > 0) continue;
      ASSERT_OK(watches_[message.to]->receive(
          message.from, message.bytes, now_, [&] { return report_of(message.to); },
          sender(message.to)));
    }
  }

  std::vector<std::unique_ptr<StallWatch>> watches_;
  std::vector<Seconds> waited_;
  std::set<int> frozen_;
  std::deque<Message> messages_;
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
};

TEST(StallWatch, AsksEverybodyWhenAnyRankHasWaitedTooLong) {
  Ranks ranks(Topology({0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6}));
  ranks.pass(Seconds(1));
  EXPECT_FALSE(ranks.answers().has_value());
  ranks.waits(10, Seconds(61));  // a leaf; the coordinator itself waits for nothing
  ranks.pass(Seconds(1));
  const auto answers = ranks.answers();
  ASSERT_TRUE(answers.has_value());
  ASSERT_EQ(answers->size(), 11u);
  for (const RankReport& report : *answers) EXPECT_TRUE(report.answered) << report.rank;
}

TEST(StallWatch, AsksOncePerPeriodHoweverManyRanksRaiseTheAlarm) {
  Ranks ranks(Topology::one_host(5));
  for (int rank = 0; rank < 5; ++rank) ranks.waits(rank, Seconds(61));
  ranks.pass(Seconds(1));
  ranks.pass(Seconds(1));
  EXPECT_EQ(ranks.questions, 4);  // one to each child
  ranks.pass(Seconds(61));
  EXPECT_EQ(ranks.questions, 8);
}

TEST(StallWatch, ReportsRanksThatDoNotAnswer) {
  const Topology topology({0, 0, 1, 1, 2, 3, 4, 5, 5});
  Ranks ranks(topology);
  ranks.freeze(7);  // and with it what is below: rank 8
  ranks.waits(0, Seconds(61));
  ranks.pass(Seconds(1));
  EXPECT_FALSE(ranks.answers().has_value());
  for (int i = 0; i < 10; ++i) ranks.pass(Seconds(0.4));
  const auto answers = ranks.answers();
  ASSERT_TRUE(answers.has_value());
  std::set<int> silent;
  for (const RankReport& report : *answers) {
    if (!report.answered) silent.insert(report.rank);
  }
  EXPECT_EQ(silent, (std::set<int>{7, 8}));
  EXPECT_EQ(answers->size(), 9u);
}

TEST(StallWatch, NeverAsksWhenItIsSwitchedOff) {
  const Topology topology = Topology::one_host(1);
  StallWatch watch(Seconds(0), 0, topology, {0});
  ASSERT_OK(watch.tick(
      Clock::now(), Seconds(1e9), [] { return RankReport{}; },
      [](int, ConstBytes, Urgency) { return Status::ok(); }));
  EXPECT_FALSE(watch.take_answers().has_value());
}

TEST(StallWatch, RefusesNonsense) {
  StallWatch watch(Seconds(60), 0, Topology::one_host(2), {0, 1});
  const auto receive = [&](ConstBytes message) {
    return watch.receive(
        1, message, Clock::now(), [] { return RankReport{}; },
        [](int, ConstBytes, Urgency) { return Status::ok(); });
  };
  const ByteBuffer short_reports(3, std::byte{5});
  EXPECT_FALSE(receive(short_reports).is_ok());
  const ByteBuffer plan(9, std::byte{2});
  EXPECT_FALSE(receive(plan).is_ok());
}

}  // namespace
}  // namespace hvd
