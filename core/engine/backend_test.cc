// SPDX-License-Identifier: Apache-2.0
// The seam between the engine and its backends, with a backend that finishes batches later.
#include "engine/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/testing/member.h"
#include "testing/assertions.h"
#include "transport/testing/inproc.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using testing::Member;
using testing::run_members;
using testing::TransportKind;
using testing::worker_options;
using namespace std::chrono_literals;

// Takes allreduces. Copies input to output when it is released, and reports that in poll().
class LateBackend final : public Backend {
 public:
  bool takes(const Response& response) const override {
    return response.request.type == RequestType::kAllreduce;
  }
  Status run(std::span<const Item> batch, Completion& completion) override {
    started += static_cast<int>(batch.size());
    batches_.push_back({batch, &completion});
    return Status::ok();
  }
  Status poll() override {
    if (is_lost) return unavailable("the device is lost");
    if (!released) return Status::ok();
    for (const Running& each : std::exchange(batches_, {})) {
      for (const Item& item : each.batch) {
        std::copy_n(item.task->in, item.response->request.bytes(), item.task->out);
      }
      each.completion->finish(outcome);
    }
    return Status::ok();
  }
  void abandon() noexcept override {
    abandoned += static_cast<int>(batches_.size());
    batches_.clear();
  }

  std::atomic<bool> released{false};
  std::atomic<bool> is_lost{false};
  std::atomic<int> started{0};
  std::atomic<int> abandoned{0};
  Status outcome;  // of all batches

 private:
  struct Running {
    std::span<const Item> batch;
    Completion* completion;
  };
  std::vector<Running> batches_;
};

Status wait_for(Member& member, const Operation& operation, std::chrono::milliseconds limit) {
  return member.engine().wait(operation, Deadline::after(limit));
}

// Until the backend has the batch, without running the engine from this thread.
void wait_until_started(const LateBackend& backend, int count) {
  const Deadline limit = Deadline::after(20s);
  while (backend.started < count && !limit.expired()) std::this_thread::sleep_for(1ms);
  ASSERT_GE(backend.started, count);
}

template <typename Body>
void run_with_late_backends(Body body, std::chrono::milliseconds timeout = 20s) {
  run_members(TransportKind::kShm, 2, [&](Transport& transport, ControlPlane& control) {
    const auto backend = std::make_shared<LateBackend>();
    WorkerOptions options = worker_options(transport.size());
    options.host_backend.timeout = timeout;
    options.backends = {backend};
    Member member(transport, control, options);
    body(member, *backend);
    member.shutdown();
  });
}

TEST(Backend, AnOperationIsDoneOnlyWhenItsBackendReportsIt) {
  run_with_late_backends([](Member& member, LateBackend& backend) {
    std::vector<float> in{1, 2, 3};
    std::vector<float> out(3, 0);
    const auto late =
        member.submit(Member::task<float>(RequestType::kAllreduce, "x", in, &out, {3}));
    ASSERT_OK(late.status());
    EXPECT_CODE(StatusCode::kTimeout, wait_for(member, **late, 50ms));
    wait_until_started(backend, 1);
    EXPECT_FALSE((*late)->is_done());
    // The host backend carries out other operations meanwhile.
    ASSERT_OK(member.barrier());
    EXPECT_FALSE((*late)->is_done());
    EXPECT_EQ(out, std::vector<float>(3, 0));
    backend.released = true;
    ASSERT_OK(wait_for(member, **late, 20s));
    EXPECT_OK((*late)->status());
    EXPECT_EQ(out, in);
    // A shutdown waits for running batches: no rank may begin it before the other has released its.
    ASSERT_OK(member.barrier());
  });
}

// No thread waits: the engine thread has to poll by itself.
TEST(Backend, AnOperationWithoutAWaitingThreadIsDoneAsWell) {
  run_with_late_backends([](Member& member, LateBackend& backend) {
    std::vector<float> data{1, 2, 3};
    const auto late = member.start_allreduce("x", data);
    ASSERT_OK(late.status());
    wait_until_started(backend, 1);
    backend.released = true;
    const Deadline limit = Deadline::after(20s);
    while (!(*late)->is_done() && !limit.expired()) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE((*late)->is_done());
    EXPECT_OK((*late)->status());
  });
}

TEST(Backend, AFailureEndsTheOperationAndNotTheEngine) {
  run_with_late_backends([](Member& member, LateBackend& backend) {
    backend.outcome = unavailable("the device has no memory");
    backend.released = true;
    std::vector<float> data{1};
    const Status failed = member.allreduce("x", data);
    EXPECT_CODE(StatusCode::kUnavailable, failed);
    EXPECT_EQ(failed.message(), "the device has no memory");
    EXPECT_OK(member.engine().ended());
    ASSERT_OK(member.barrier());
  });
}

TEST(Backend, AFailureOfThePollEndsTheEngineAndAbandonsItsBatches) {
  std::latch started(2);
  run_with_late_backends([&started](Member& member, LateBackend& backend) {
    std::vector<float> data{1};
    const auto late = member.start_allreduce("x", data);
    ASSERT_OK(late.status());
    wait_until_started(backend, 1);
    started.arrive_and_wait();
    backend.is_lost = true;
    ASSERT_OK(wait_for(member, **late, 20s));
    EXPECT_FALSE((*late)->status().is_ok());
    EXPECT_FALSE(member.engine().ended().is_ok());
    EXPECT_EQ(backend.abandoned, 1);
  });
}

TEST(Backend, AShutdownAbandonsABatchThatDoesNotEnd) {
  const auto body = [](Member& member, LateBackend& backend) {
    std::vector<float> data{1};
    const auto late = member.start_allreduce("x", data);
    ASSERT_OK(late.status());
    wait_until_started(backend, 1);
    member.shutdown();
    EXPECT_TRUE((*late)->is_done());
    EXPECT_CODE(StatusCode::kAborted, (*late)->status());
    EXPECT_EQ(backend.abandoned, 1);
  };
  run_with_late_backends(body, /*timeout=*/500ms);
}

TEST(Backend, ASingleRankWaitsForItsBackend) {
  InprocHub hub(1);
  const auto backend = std::make_shared<LateBackend>();
  backend->released = true;
  EngineOptions options;
  options.worker = worker_options(1);
  options.worker.backends = {backend};
  const auto engine = Engine::start(options, hub.transport(0), nullptr);
  ASSERT_OK(engine.status());
  std::vector<float> data{4};
  std::vector<TensorTask> tasks;
  tasks.push_back(Member::task<float>(RequestType::kAllreduce, "x", data, &data, {1}));
  const Operation::Ref operation = Operation::make(std::move(tasks));
  ASSERT_OK((*engine)->submit(*operation));
  EXPECT_TRUE(operation->is_done());
  EXPECT_OK(operation->status());
}

}  // namespace
}  // namespace hvd
