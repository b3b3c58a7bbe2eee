// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiator.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/config.h"
#include "engine/messages.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

Request allreduce(const std::string& name, Shape shape = {4}) {
  Request request;
  request.name = name;
  request.shape = std::move(shape);
  return request;
}

// A few ranks whose messages are delivered at once.
class Ranks {
 public:
  explicit Ranks(const Topology& topology, size_t cache_capacity = 16) {
    for (int rank = 0; rank < topology.size(); ++rank) {
      NegotiatorOptions options = NegotiatorOptions::in_tree(rank, topology);
      options.cache_capacity = cache_capacity;
      ranks_.push_back(std::make_unique<Negotiator>(std::move(options)));
    }
  }
  explicit Ranks(int size) : Ranks(Topology::one_host(size)) {}

  Negotiator& operator[](int rank) { return *ranks_[rank]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  void submit_everywhere(const Request& request) {
    for (auto& rank : ranks_) rank->announce(request);
    settle();
  }

  // Delivers messages and makes plans until there are none.
  void settle() {
    bool quiet = false;
    while (!quiet) {
      quiet = true;
      for (int rank = 0; rank < size(); ++rank) {
        if (ranks_[rank]->can_decide()) ranks_[rank]->decide();
        ASSERT_OK(ranks_[rank]->flush([&](int to, ConstBytes message, Urgency) {
          quiet = false;
          ++messages;
          bytes += message.size();
          return ranks_[to]->receive(rank, message);
        }));
      }
    }
  }

  // The plans of a rank as text: names, with an exclamation mark after errors.
  std::string plan_of(int rank) {
    std::string text;
    Plan plan;
    while (ranks_[rank]->next_plan(plan)) {
      for (const auto& response : plan.responses) {
        text += response->request.name + (response->error.is_ok() ? " " : "! ");
        last_error = response->error;
        last = response;
      }
      if (plan.last_joined) text += "joined" + std::to_string(*plan.last_joined) + " ";
      if (!plan.shutdown.is_ok()) text += "shutdown ";
    }
    return text;
  }
  void expect_plan(const std::string& text) {
    for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(plan_of(rank), text) << "rank " << rank;
  }

  size_t messages = 0;
  size_t bytes = 0;
  Status last_error;
  std::shared_ptr<const Response> last;

 private:
  std::vector<std::unique_ptr<Negotiator>> ranks_;
};

TEST(Negotiator, PlansWhatEveryRankHasWhateverTheOrder) {
  Ranks ranks(3);
  ranks[0].announce(allreduce("a"));
  ranks[0].announce(allreduce("b"));
  ranks[1].announce(allreduce("b"));
  ranks[2].announce(allreduce("c"));
  ranks[2].announce(allreduce("b"));
  ranks.settle();
  ranks.expect_plan("b ");
  ranks[1].announce(allreduce("a"));
  ranks[2].announce(allreduce("a"));
  ranks.settle();
  ranks.expect_plan("a ");
}

TEST(Negotiator, SendsNumbersForNamesSeenBefore) {
  Ranks ranks(4);
  const std::string name(200, 'x');
  ranks.submit_everywhere(allreduce(name));
  const size_t first = ranks.bytes;
  ranks.bytes = ranks.messages = 0;
  ranks.submit_everywhere(allreduce(name));
  EXPECT_LT(ranks.bytes, first / 3);
  EXPECT_EQ(ranks.messages, 6u);  // three up, three down
  ranks.expect_plan(name + " " + name + " ");
}

TEST(Negotiator, ReturnsTheNumberOfANameForTheNextAnnouncement) {
  Ranks ranks(1);
  ResponseId known = kNoResponse;
  const auto announce = [&](const Request& request) {
    ranks[0].announce(request, 0, nullptr, known);
    ranks.settle();
  };
  announce(allreduce("a"));
  EXPECT_EQ(known, kNoResponse);
  announce(allreduce("a"));
  const ResponseId first = ranks[0].cache().find("a")->id;
  EXPECT_EQ(known, first);
  announce(allreduce("b"));
  EXPECT_EQ(known, kNoResponse) << "that number belongs to another name";
  known = first;
  announce(allreduce("a", {5}));
  EXPECT_EQ(known, first);
  announce(allreduce("a", {5}));
  EXPECT_EQ(known, ranks[0].cache().find("a")->id);
  EXPECT_NE(known, first);
}

TEST(Negotiator, RemembersEveryTensorOfALargeModel) {
  constexpr int kTensors = 3000;
  Ranks ranks(Topology::one_host(2), Config::kDefaultCacheCapacity);
  const std::string prefix(200, 'x');
  size_t bytes[2] = {0, 0};
  for (const int step : {0, 1}) {
    ranks.bytes = 0;
    for (int i = 0; i < kTensors; ++i) {
      for (const int rank : {0, 1}) ranks[rank].announce(allreduce(prefix + std::to_string(i)));
    }
    ranks.settle();
    bytes[step] = ranks.bytes;
  }
  EXPECT_LT(bytes[1], bytes[0] / 20) << "the names travelled again";
  EXPECT_EQ(ranks[0].cache().size(), size_t{kTensors});
  EXPECT_EQ(ranks[0].cache().crowded_out(), 0u);
}

// A program may use a new name for every call.
TEST(Negotiator, RemembersNoMoreThanItsCapacity) {
  Ranks ranks(Topology::one_host(2), 100);
  for (int i = 0; i < 1000; ++i) ranks.submit_everywhere(allreduce(std::to_string(i)));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].cache().size(), 100u);
    EXPECT_LT(ranks[rank].retired(), 100u);
  }
}

TEST(Negotiator, TellsAllRanksOfAMismatchAndGoesOn) {
  Ranks ranks(Topology({0, 0, 1, 1}));
  ranks[0].announce(allreduce("x"));
  ranks[1].announce(allreduce("x"));
  ranks[2].announce(allreduce("x"));
  ranks[3].announce(allreduce("x", {5}));
  ranks.settle();
  ranks.expect_plan("x! ");
  EXPECT_EQ(ranks.last_error.code(), StatusCode::kPrecondition);
  EXPECT_EQ(ranks.last_error.message(),
            "Mismatched shapes: allreduce \"x\": rank 2 has [4], rank 3 has [5]");
  ranks.submit_everywhere(allreduce("x"));
  ranks.expect_plan("x ");
}

TEST(Negotiator, FindsARankThatChangedACachedTensorAlone) {
  Ranks ranks(3);
  ranks.submit_everywhere(allreduce("x"));
  ranks.expect_plan("x ");
  ranks[0].announce(allreduce("x"));
  ranks[1].announce(allreduce("x", {2}));
  ranks[2].announce(allreduce("x"));
  ranks.settle();
  ranks.expect_plan("x! ");
  EXPECT_EQ(ranks.last_error.message(),
            "Mismatched shapes: allreduce \"x\": rank 0 has [4], rank 1 has [2]");
  ranks.submit_everywhere(allreduce("x", {2}));  // all of them: no mismatch
  ranks.expect_plan("x ");
}

TEST(Negotiator, CollectsTheRowsOfAnAllgather) {
  Ranks ranks(Topology({0, 0, 1, 1, 2}));
  const auto gather = [&](int rank, int64_t rows) {
    Request request = allreduce("g", {rows, 2});
    request.type = RequestType::kAllgather;
    ranks[rank].announce(request);
  };
  for (int rank = 0; rank < 5; ++rank) gather(rank, rank);
  ranks.settle();
  ranks.expect_plan("g ");
  EXPECT_EQ(ranks.last->first_dimensions, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  // Four ranks use the number, one has other rows: the rows of the four are those of the cache.
  for (int rank = 0; rank < 5; ++rank) gather(rank, rank == 3 ? 9 : rank);
  ranks.settle();
  ranks.expect_plan("g ");
  EXPECT_EQ(ranks.last->first_dimensions, (std::vector<int64_t>{0, 1, 2, 9, 4}));
}

TEST(Negotiator, PlansReductionsWithoutRanksThatJoined) {
  Ranks ranks(Topology({0, 0, 1, 1}));
  ranks[0].announce(allreduce("x"));
  ranks[1].join();
  ranks[3].join();
  ranks.settle();
  ranks.expect_plan("");
  ranks[2].announce(allreduce("x"));
  ranks.settle();
  ranks.expect_plan("x ");
  ranks[2].join();
  ranks.settle();
  ranks[0].join();
  ranks.settle();
  ranks.expect_plan("joined0 ");
  ranks.submit_everywhere(allreduce("x"));
  ranks.expect_plan("x ");
}

// Rank 1 announces the tensor of rank 2 to the coordinator, and has joined without a tensor.
TEST(Negotiator, NamesARankThatHasTheTensorInAMismatch) {
  for (const bool rank_2_joins : {false, true}) {
    Ranks ranks(Topology({0, 1, 1}));
    ranks.submit_everywhere(allreduce("x"));
    ranks.expect_plan("x ");
    ranks[1].join();
    ranks[2].announce(allreduce("x"));  // as a number
    if (rank_2_joins) ranks[2].join();
    ranks.settle();
    ranks[0].announce(allreduce("x", {5}));
    ranks.settle();
    ranks.expect_plan("x! ");
    EXPECT_EQ(ranks.last_error.message(),
              "Mismatched shapes: allreduce \"x\": rank 2 has [4], rank 0 has [5]");
  }
}

TEST(Negotiator, RefusesOtherOperationsWhileARankHasJoined) {
  Ranks ranks(3);
  Request gather = allreduce("g");
  gather.type = RequestType::kAllgather;
  ranks.submit_everywhere(gather);
  ranks.expect_plan("g ");
  ranks[1].join();
  ranks[0].announce(gather);  // as a number
  ranks[2].announce(gather);
  ranks.settle();
  EXPECT_EQ(ranks.plan_of(0), "g! ");
  EXPECT_EQ(
      ranks.last_error.message(),
      "allgather \"g\" is not supported with Join: rank 1 has joined and has no data to give; "
      "only reductions go on then");
}

TEST(Negotiator, EndsAllRanksWhenOneWantsTo) {
  Ranks ranks(Topology({0, 0, 1, 1}));
  ranks[0].announce(allreduce("x"));
  ranks[3].request_shutdown(aborted("rank 3 was shut down"));
  ranks.settle();
  ranks.expect_plan("shutdown ");
}

// A plan gives the number up while an announcement that uses it is on its way.
TEST(Negotiator, UnderstandsNumbersThatWereGivenUpMeanwhile) {
  Ranks ranks(Topology::one_host(2), /*cache_capacity=*/1);
  ranks.submit_everywhere(allreduce("old"));
  ranks.expect_plan("old ");
  std::vector<ByteBuffer> late;
  ranks[1].announce(allreduce("new"));
  ASSERT_OK(ranks[1].flush(
      [&](int, ConstBytes message, Urgency) { return ranks[0].receive(1, message); }));
  ranks[0].announce(allreduce("new"));
  ranks[1].announce(allreduce("old"));  // by number
  ASSERT_OK(ranks[1].flush([&](int, ConstBytes message, Urgency) {
    late.emplace_back(message.begin(), message.end());
    return Status::ok();
  }));
  ranks[0].decide();  // "new" evicts "old" from the cache
  for (const ByteBuffer& message : late) ASSERT_OK(ranks[0].receive(1, message));
  ranks[0].announce(allreduce("old"));
  ranks.settle();
  ranks.expect_plan("new old ");
}

TEST(Negotiator, ForgetsNumbersOnceNoRankCanUseThem) {
  Ranks ranks(Topology::one_host(2), /*cache_capacity=*/1);
  ranks.submit_everywhere(allreduce("old"));
  ranks.submit_everywhere(allreduce("new"));
  EXPECT_EQ(ranks[0].retired(), 1u);
  ranks[1].announce(allreduce("new"));  // its message shows that rank 1 has applied the plan
  ranks.settle();
  EXPECT_EQ(ranks[0].retired(), 0u);
  EXPECT_EQ(ranks[0].waiting(), 1u);
  ranks[0].announce(allreduce("new"));
  ranks.settle();
  EXPECT_EQ(ranks[0].waiting(), 0u);
  EXPECT_EQ(ranks[1].waiting(), 0u);
}

TEST(Negotiator, RefusesAPlanForATensorItHasNotAnnounced) {
  DecidedPlan decided;
  decided.spelled.push_back({.request = allreduce("x")});
  const ByteBuffer plan = encode(decided);
  Ranks ranks(2);
  EXPECT_FALSE(ranks[1].receive(0, plan).is_ok());
  ranks[1].announce(allreduce("x"));
  EXPECT_FALSE(ranks[1].receive(0, plan).is_ok());
  ranks.settle();
  EXPECT_OK(ranks[1].receive(0, plan));
  EXPECT_EQ(ranks.plan_of(1), "x ");
  EXPECT_FALSE(ranks[1].receive(0, plan).is_ok());  // a second time
}

TEST(Negotiator, RefusesNonsense) {
  Ranks ranks(3);
  const ByteBuffer garbage(20, std::byte{0x77});
  EXPECT_FALSE(ranks[0].receive(1, garbage).is_ok());
  EXPECT_FALSE(ranks[0].receive(1, {}).is_ok());
  const ByteBuffer plan_from_child(1, std::byte{2});
  EXPECT_FALSE(ranks[0].receive(1, plan_from_child).is_ok());
}

}  // namespace
}  // namespace hvd
