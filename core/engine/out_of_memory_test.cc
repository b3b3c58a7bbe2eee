// SPDX-License-Identifier: Apache-2.0
// Memory runs out on one rank: each allocation of a step fails once, alone or with all that follow.
// That rank reports kUnavailable, the other rank that it was lost. No rank hangs, and both can shut
// down.
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/testing/member.h"
#include "testing/assertions.h"
#include "testing/failing_allocations.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using testing::FailingAllocations;
using testing::Member;
using testing::TransportKind;
using testing::Victim;
using testing::worker_options;
using Which = FailingAllocations::Which;

constexpr int kVictimRank = 1;
constexpr int kCount = 1000;
const Deadline::Clock::duration kLimit = std::chrono::seconds(60);

// Which thread runs out of memory: the caller, which runs the engine while it waits, or the engine
// thread.
enum class Where { kCaller, kEngine };

// One rank of the test.
class Rank {
 public:
  Rank(Transport& transport, ControlPlane& control, Where where)
      : is_victim_(transport.rank() == kVictimRank), where_(where) {
    EngineOptions options;
    options.worker = worker_options(transport.size());
    options.ranks_on_host = transport.size();
    if (is_victim_ && where == Where::kEngine) {
      options.thread_name = FailingAllocations::kVictimName;
    }
    auto started = Engine::start(options, std::shared_ptr<Transport>(&transport, [](Transport*) {}),
                                 std::shared_ptr<ControlPlane>(&control, [](ControlPlane*) {}));
    HVD_CHECK(started.is_ok());
    engine_ = std::move(started).value();
  }

  // The outcome of the operation; internal_error when it is not done in time.
  Status run(std::vector<TensorTask> tasks) {
    const Operation::Ref operation = Operation::make(std::move(tasks));
    const bool helps = where_ == Where::kCaller;
    HVD_TRY(guarded([&] {
      return engine_->submit(*operation, helps ? SubmitHint::kWillWait : SubmitHint::kNone);
    }));
    const Deadline limit = Deadline::after(kLimit);
    if (helps) {
      const Status waited = guarded([&] { return engine_->wait(*operation, limit); });
      if (!waited.is_ok()) return internal_error("hangs: " + waited.message());
    }
    while (!operation->is_done()) {
      if (limit.expired()) return internal_error("hangs");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return operation->status();
  }

  void shutdown() {
    const Status reason = aborted("shut down");
    (void)guarded([&] {
      engine_->shutdown(reason, Deadline::after(std::chrono::seconds(20)));
      return Status::ok();
    });
  }
  Status ended() const { return engine_->ended(); }

 private:
  // Only the functions of the engine run out of memory, not the rest of this test.
  template <typename Call>
  Status guarded(Call call) {
    if (!is_victim_ || where_ == Where::kEngine) return call();
    const Victim victim;
    return call();
  }

  const bool is_victim_;
  const Where where_;
  std::unique_ptr<Engine> engine_;
};

std::vector<TensorTask> one(TensorTask task) {
  std::vector<TensorTask> tasks;
  tasks.push_back(std::move(task));
  return tasks;
}

// One of each collective, a fused group among them, until one fails.
Status step(Rank& rank, int size) {
  std::vector<float> data(kCount, 1);
  const auto make = [&](RequestType type, const std::string& name, std::vector<float>* out) {
    return Member::task<float>(type, name, data, out, {kCount});
  };
  std::vector<TensorTask> group;
  std::vector<std::vector<float>> sums(3, std::vector<float>(kCount, 0));
  for (int i = 0; i < 3; ++i) {
    group.push_back(make(RequestType::kAllreduce, "sum" + std::to_string(i), &sums[i]));
  }
  HVD_TRY(rank.run(std::move(group)));
  for (const auto& sum : sums) {
    EXPECT_EQ(sum, std::vector<float>(kCount, static_cast<float>(size)));
  }
  TensorTask broadcast = make(RequestType::kBroadcast, "broadcast", &data);
  broadcast.request.root = 0;
  HVD_TRY(rank.run(one(std::move(broadcast))));
  HVD_TRY(rank.run(one(make(RequestType::kAllgather, "gather", nullptr))));
  HVD_TRY(rank.run(one(make(RequestType::kAlltoall, "alltoall", nullptr))));
  HVD_TRY(rank.run(one(make(RequestType::kReducescatter, "scatter", nullptr))));
  TensorTask barrier;
  barrier.request.type = RequestType::kBarrier;
  barrier.request.name = "barrier";
  barrier.request.dtype = DType::kUint8;
  return rank.run(one(std::move(barrier)));
}

struct Outcome {
  bool has_failed = false;  // an allocation
  size_t allocations = 0;
  std::vector<Status> steps;  // by rank
  Status ended;               // of the victim's engine
};

Outcome run_with(TransportKind kind, Where where, Which which, size_t n) {
  Outcome outcome;
  outcome.steps.resize(2);
  std::latch started(2);
  const auto connected = testing::outcomes_of_members(
      kind, 2, [&](Transport& transport, ControlPlane& control) -> Status {
        Rank rank(transport, control, where);
        started.arrive_and_wait();
        std::unique_ptr<FailingAllocations> failing;
        if (transport.rank() == kVictimRank)
          failing = std::make_unique<FailingAllocations>(which, n);
        outcome.steps[transport.rank()] = step(rank, transport.size());
        if (transport.rank() == kVictimRank) {
          outcome.ended = rank.ended();
          if (which == Which::kOne) failing.reset();
        }
        rank.shutdown();
        if (transport.rank() == kVictimRank) {
          outcome.has_failed = FailingAllocations::has_failed();
          outcome.allocations = FailingAllocations::count();
        }
        return Status::ok();
      });
  testing::expect_all_ok(kind, connected);
  return outcome;
}

struct Case {
  TransportKind kind;
  Where where;
  Which which;
  size_t stride;  // test every n-th allocation only: worlds of sockets take long to make
};

class OutOfMemory : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { configure_log(LogLevel::kFatal, false); }
  void TearDown() override { configure_log(LogLevel::kWarning, false); }
};

TEST_P(OutOfMemory, EndsTheEngineAndNamesTheRankToTheOthers) {
  const auto [kind, where, which, stride] = GetParam();
  const size_t allocations = run_with(kind, where, Which::kNone, 0).allocations;
  ASSERT_GT(allocations, 10U);
  for (size_t n = 0;; n += stride) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    const Outcome outcome = run_with(kind, where, which, n);
    if (!outcome.has_failed) break;  // past the last one
    const Status& victim = outcome.steps[kVictimRank];
    const Status& other = outcome.steps[0];
    if (victim.is_ok()) {
      // The failure hit a log line or the end of the victim: the other rank may still have been in
      // the last operation.
      ASSERT_TRUE(other.is_ok() || other.lost_rank() == kVictimRank) << other.to_string();
      continue;
    }
    ASSERT_EQ(victim.code(), StatusCode::kUnavailable) << victim.to_string();
    if (outcome.ended.is_ok()) continue;  // only its own output had no memory
    ASSERT_EQ(other.code(), StatusCode::kPeerLost) << other.to_string();
    ASSERT_EQ(other.lost_rank(), kVictimRank) << other.to_string();
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Where where : {Where::kCaller, Where::kEngine}) {
    all.push_back({TransportKind::kInproc, where, Which::kOne, 1});
    for (const TransportKind kind : {TransportKind::kTcp, TransportKind::kShm}) {
      all.push_back({kind, where, Which::kOne, 13});
      all.push_back({kind, where, Which::kFromN, 11});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Worlds, OutOfMemory, ::testing::ValuesIn(cases()), [](const auto& each) {
  return testing::to_string(each.param.kind) +
         (each.param.where == Where::kCaller ? "Caller" : "Engine") +
         (each.param.which == Which::kOne ? "Once" : "Permanently");
});

}  // namespace
}  // namespace hvd
