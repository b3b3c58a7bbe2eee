// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <latch>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "engine/testing/member.h"
#include "engine/timeline/tracer.h"
#include "testing/assertions.h"
#include "transport/testing/inproc.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using testing::Member;
using testing::run_members;
using testing::TransportKind;
using testing::worker_options;

struct World {
  TransportKind kind;
  int ranks;
};

class EngineTest : public ::testing::TestWithParam<World> {
 protected:
  // Each rank gets a Member; all end together.
  template <typename Body>
  void run(Body body) {
    run(body, [](WorkerOptions&) {});
  }
  template <typename Body, typename Change>
  void run(Body body, Change change) {
    run_members(GetParam().kind, GetParam().ranks,
                [&](Transport& transport, ControlPlane& control) {
                  WorkerOptions options = worker_options(transport.size());
                  change(options);
                  Member member(transport, control, options);
                  body(member, transport.rank(), transport.size());
                  if (!::testing::Test::HasFatalFailure()) member.shutdown();
                });
  }
};

// Σ over ranks of (rank + i).
std::vector<float> ramp(int rank, int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(rank + i);
  return values;
}
std::vector<float> sum_of_ramps(int ranks, int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) {
    values[i] = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * i);
  }
  return values;
}

TEST_P(EngineTest, ReducesTensorsThatRanksSubmitInAnyOrder) {
  constexpr int kTensors = 60;
  run([](Member& member, int rank, int size) {
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < 3; ++step) {
      std::vector<int> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::vector<float>> data(kTensors);
      std::vector<Result<Operation::Ref>> started;
      for (const int tensor : order) {
        data[tensor] = ramp(rank + tensor, 1 + tensor * 37 % 500);
        started.push_back(member.start_allreduce("t" + std::to_string(tensor), data[tensor]));
      }
      for (const auto& operation : started) ASSERT_OK(member.finish(operation));
      for (int tensor = 0; tensor < kTensors; ++tensor) {
        std::vector<float> expected = sum_of_ramps(size, static_cast<int>(data[tensor].size()));
        for (float& value : expected) value += static_cast<float>(size * tensor);
        ASSERT_EQ(data[tensor], expected) << "tensor " << tensor << " in step " << step;
      }
    }
  });
}

TEST(InFlight, TellsGroupsApart) {
  InFlight in_flight;
  std::vector<Operation::Ref> operations;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "b"}, {"c"}, {"d", "e", "f"}}) {
    std::vector<TensorTask> tasks(names.size());
    for (size_t i = 0; i < names.size(); ++i) tasks[i].request.name = names[i];
    operations.push_back(Operation::make(std::move(tasks)));
    ASSERT_OK(in_flight.add(*operations.back()));
  }
  EXPECT_NE(operations[0]->group, 0u);
  EXPECT_EQ(operations[1]->group, 0u);
  EXPECT_NE(operations[2]->group, 0u);
  EXPECT_NE(operations[0]->group, operations[2]->group);
  int closed = 0;
  in_flight.close(aborted("the end"), [&closed](Operation&) { ++closed; });
  EXPECT_EQ(closed, 3);
}

// Operations without a name ---------------------------------------------------------------------

Operation::Ref unnamed(const std::string& label, size_t tensors = 1) {
  std::vector<TensorTask> tasks(tensors);
  for (TensorTask& task : tasks) task.request.name = label;
  Operation::Ref operation = Operation::make(std::move(tasks));
  operation->is_unnamed = true;
  return operation;
}

std::vector<std::string> names_of(const std::vector<Operation*>& operations) {
  std::vector<std::string> names;
  for (const Operation* operation : operations) {
    for (const TensorTask& task : operation->tasks) names.push_back(task.request.name);
  }
  return names;
}

// Adds operations, and shows which of them the engine gets.
class Submissions {
 public:
  explicit Submissions(uint32_t numbers) : in_flight_(numbers) {}
  ~Submissions() {
    in_flight_.close(aborted("the end"), [](Operation&) {});
  }

  InFlight& in_flight() { return in_flight_; }
  Operation& add(Operation::Ref operation) {
    EXPECT_OK(in_flight_.add(*operation));
    return *all_.emplace_back(std::move(operation));
  }
  void complete(Operation& operation) {
    std::vector<TensorTask*> tasks;
    for (TensorTask& task : operation.tasks) tasks.push_back(&task);
    in_flight_.remove(tasks, finished_);
    in_flight_.enqueue_held();
  }
  std::vector<std::string> queued() {
    std::vector<Operation*> queued;
    in_flight_.take_queued(queued);
    return names_of(queued);
  }

 private:
  std::vector<Operation::Ref> all_;
  std::vector<Operation::Ref> finished_;
  InFlight in_flight_;
};

using Names = std::vector<std::string>;

TEST(InFlight, NumbersOperationsWithoutANameByLabel) {
  Submissions submissions(3);
  submissions.add(unnamed("allreduce.noname"));
  submissions.add(unnamed("allgather.noname"));
  submissions.add(unnamed("allreduce.noname"));
  submissions.add(unnamed("grouped_allreduce.noname", 2));
  EXPECT_EQ(submissions.queued(),
            (Names{"allreduce.noname.0", "allgather.noname.0", "allreduce.noname.1",
                   "grouped_allreduce.noname.0_1of2", "grouped_allreduce.noname.0_2of2"}));
}

// Ranks complete operations at different times, which must not change the numbers.
TEST(InFlight, NumbersDoNotDependOnWhatIsDone) {
  Submissions early(2);
  Submissions late(2);
  for (int i = 0; i < 5; ++i) early.complete(early.add(unnamed("x.noname")));
  Operation& first = late.add(unnamed("x.noname"));
  Operation& second = late.add(unnamed("x.noname"));
  Operation& third = late.add(unnamed("x.noname"));
  Operation& fourth = late.add(unnamed("x.noname"));
  late.add(unnamed("x.noname"));
  EXPECT_EQ(late.queued(), (Names{"x.noname.0", "x.noname.1"}));
  EXPECT_EQ(late.in_flight().count(), 5u);
  late.complete(second);
  EXPECT_FALSE(late.in_flight().has_queued()) << "the third has the name of the first";
  late.complete(first);
  EXPECT_EQ(late.queued(), (Names{"x.noname.0", "x.noname.1"}));
  late.complete(fourth);
  late.complete(third);
  EXPECT_EQ(late.queued(), Names{"x.noname.0"});
  EXPECT_EQ(early.queued(),
            (Names{"x.noname.0", "x.noname.1", "x.noname.0", "x.noname.1", "x.noname.0"}));
}

TEST(InFlight, ANumberWaitsForAUserWhoTookItsName) {
  Submissions submissions(2);
  std::vector<TensorTask> tasks(1);
  tasks[0].request.name = "x.noname.0";
  Operation& named = submissions.add(Operation::make(std::move(tasks)));
  submissions.add(unnamed("x.noname"));
  EXPECT_EQ(submissions.queued(), Names{"x.noname.0"});
  submissions.complete(named);
  EXPECT_EQ(submissions.queued(), Names{"x.noname.0"});
}

TEST(InFlight, NumbersBeginAgainAfterAJoin) {
  Submissions submissions(8);
  submissions.complete(submissions.add(unnamed("x.noname")));
  submissions.add(Operation::make({}));
  std::vector<Operation::Ref> joins;
  submissions.in_flight().remove_joins(joins);
  submissions.add(unnamed("x.noname"));
  EXPECT_EQ(submissions.queued(), (Names{"x.noname.0", "x.noname.0"}));
}

TEST(InFlight, ReturnsWhatWaitsForANumberWhenItIsClosed) {
  InFlight in_flight(1);
  std::vector<Operation::Ref> operations;
  for (int i = 0; i < 3; ++i) {
    operations.push_back(unnamed("x.noname"));
    ASSERT_OK(in_flight.add(*operations.back()));
  }
  int closed = 0;
  in_flight.close(aborted("the end"), [&closed](Operation&) { ++closed; });
  EXPECT_EQ(closed, 3);
  EXPECT_EQ(in_flight.count(), 0u);
}

TEST(InFlight, LeavesHalfOfASmallCacheToNames) {
  EXPECT_EQ(numbers_for(Config::kDefaultCacheCapacity), kMostNumbers);
  EXPECT_EQ(numbers_for(0), kMostNumbers);
  EXPECT_EQ(numbers_for(1000), 500u);
  EXPECT_EQ(numbers_for(1), 60u);
}

// Far more than there are numbers; rank by rank between other operations, which have names and come
// in any order.
TEST_P(EngineTest, MatchesOperationsWithoutANameByTheirOrder) {
  constexpr int kOperations = 2 * kMostNumbers + 100;
  run([](Member& member, int rank, int size) {
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<std::vector<float>> data(kOperations);
    std::vector<std::vector<float>> named(kOperations, std::vector<float>{1});
    std::vector<int> names(kOperations);
    std::iota(names.begin(), names.end(), 0);
    std::shuffle(names.begin(), names.end(), random);
    std::vector<Result<Operation::Ref>> started;
    for (int i = 0; i < kOperations; ++i) {
      data[i] = {static_cast<float>(i)};
      std::vector<TensorTask> tasks;
      tasks.push_back(
          Member::task<float>(RequestType::kAllreduce, "allreduce.noname", data[i], &data[i], {1}));
      Operation::Ref operation = Operation::make(std::move(tasks));
      operation->is_unnamed = true;
      ASSERT_OK(member.engine().submit(*operation));
      if (random() % 64 == 0) {
        ASSERT_OK(member.engine().wait(*operation, Deadline::after(std::chrono::seconds(30))));
      }
      started.push_back(std::move(operation));
      if (names[i] % 8 != 0) continue;
      started.push_back(member.start_allreduce("t" + std::to_string(names[i]), named[names[i]]));
    }
    for (const auto& operation : started) ASSERT_OK(member.finish(operation));
    for (int i = 0; i < kOperations; ++i) {
      ASSERT_EQ(data[i].front(), static_cast<float>(size * i)) << "operation " << i;
    }
  });
}

// The waits end too early to run the operations: the engine thread has to.
TEST_P(EngineTest, GetsOnWhileCallersOnlyLookIn) {
  run([](Member& member, int rank, int size) {
    for (int i = 0; i < 5; ++i) {
      std::vector<float> data = ramp(rank, 10);
      const auto operation = member.start_allreduce("t", data);
      ASSERT_OK(operation);
      const Deadline enough = Deadline::after(std::chrono::seconds(5));
      while (!member.engine().wait(**operation, Deadline::after(std::chrono::seconds(0))).is_ok()) {
        ASSERT_FALSE(enough.expired());
      }
      EXPECT_EQ(data, sum_of_ramps(size, 10));
    }
  });
}

TEST_P(EngineTest, CarriesOutEveryCollective) {
  run([](Member& member, int rank, int size) {
    // Different rows: rank r has r + 1.
    const std::vector<int32_t> rows(2 * (rank + 1), rank);
    auto gather = member.submit(
        Member::task<int32_t>(RequestType::kAllgather, "g", rows, nullptr, {rank + 1, 2}));
    ASSERT_OK(member.finish(gather));
    std::vector<int32_t> gathered;
    for (int r = 0; r < size; ++r) gathered.insert(gathered.end(), 2 * (r + 1), r);
    EXPECT_EQ(Member::output<int32_t>(**gather), gathered);
    EXPECT_EQ((*gather)->tasks[0].shape_of_output(), (Shape{size * (size + 1) / 2, 2}));

    std::vector<float> sent = ramp(rank, 5);
    std::vector<float> got(5, -1);
    TensorTask cast = Member::task<float>(RequestType::kBroadcast, "b", sent, &got, {5});
    cast.request.root = size - 1;
    ASSERT_OK(member.finish(member.submit(std::move(cast))));
    EXPECT_EQ(got, ramp(size - 1, 5));
    EXPECT_EQ(sent, ramp(rank, 5));

    // Rank r sends r + 1 rows to every rank, and keeps one back.
    std::vector<int32_t> all((rank + 1) * size + 1, rank);
    TensorTask exchange =
        Member::task<int32_t>(RequestType::kAlltoall, "a", all, nullptr, {(rank + 1) * size + 1});
    exchange.splits.assign(size, rank + 1);
    auto exchanged = member.submit(std::move(exchange));
    ASSERT_OK(member.finish(exchanged));
    std::vector<int32_t> received;
    std::vector<int32_t> splits;
    for (int r = 0; r < size; ++r) {
      received.insert(received.end(), r + 1, r);
      splits.push_back(r + 1);
    }
    EXPECT_EQ(Member::output<int32_t>(**exchanged), received);
    EXPECT_EQ((*exchanged)->tasks[0].received_splits, splits);

    // One row more than divides evenly.
    std::vector<double> scattered(static_cast<size_t>(size) + 1);
    std::iota(scattered.begin(), scattered.end(), 0.0);
    TensorTask scatter =
        Member::task<double>(RequestType::kReducescatter, "s", scattered, nullptr, {size + 1});
    scatter.request.op = ReduceOp::kAverage;
    auto part = member.submit(std::move(scatter));
    ASSERT_OK(member.finish(part));
    const std::vector<double> mine =
        rank == 0 ? std::vector<double>{0, 1} : std::vector<double>{static_cast<double>(rank) + 1};
    EXPECT_EQ(Member::output<double>(**part), mine);

    std::vector<float> same = {3, 4};
    TensorTask adasum = Member::task<float>(RequestType::kAdasum, "d", same, &same, {2});
    ASSERT_OK(member.finish(member.submit(std::move(adasum))));
    EXPECT_EQ(same, (std::vector<float>{3, 4}));

    for (int i = 0; i < 3; ++i) ASSERT_OK(member.barrier());

    std::vector<float> empty;
    ASSERT_OK(member.allreduce("nothing", empty));
  });
}

TEST_P(EngineTest, FusesWhatIsReadyTogetherWithoutMixingItUp) {
  run([](Member& member, int rank, int size) {
    for (int step = 0; step < 2; ++step) {
      std::vector<TensorTask> group;
      std::vector<std::vector<float>> floats(20);
      std::vector<std::vector<double>> doubles(20);
      std::vector<std::vector<int32_t>> rows(20);
      for (int i = 0; i < 20; ++i) {
        const std::string suffix = std::to_string(i);
        floats[i] = ramp(rank, i * 11);
        doubles[i].assign(i + 1, rank + i);
        rows[i].assign((rank + i) % 3, rank);
        group.push_back(Member::task<float>(RequestType::kAllreduce, "f" + suffix, floats[i],
                                            &floats[i], {i * 11}));
        group.push_back(Member::task<double>(RequestType::kReducescatter, "r" + suffix, doubles[i],
                                             nullptr, {i + 1}));
        group.push_back(Member::task<int32_t>(RequestType::kAllgather, "g" + suffix, rows[i],
                                              nullptr, {(rank + i) % 3}));
      }
      const auto operation = member.submit(std::move(group));
      ASSERT_OK(member.finish(operation));
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(floats[i], sum_of_ramps(size, i * 11));
        const auto scattered = Member::output<double>(**operation, 3 * i + 1);
        const int extra = rank < (i + 1) % size ? 1 : 0;
        ASSERT_EQ(scattered.size(), static_cast<size_t>((i + 1) / size + extra));
        for (const double value : scattered) EXPECT_EQ(value, size * (size - 1) / 2 + size * i);
        std::vector<int32_t> gathered;
        for (int r = 0; r < size; ++r) gathered.insert(gathered.end(), (r + i) % 3, r);
        EXPECT_EQ(Member::output<int32_t>(**operation, 3 * i + 2), gathered);
      }
    }
  });
}

TEST_P(EngineTest, TellsEveryRankOfAMismatchAndGoesOn) {
  run([](Member& member, int rank, int size) {
    std::vector<float> data(rank == size - 1 ? 3 : 4, 1);
    const Status status = member.allreduce("x", data);
    EXPECT_EQ(status.code(), StatusCode::kPrecondition);
    EXPECT_NE(status.message().find("Mismatched shapes: allreduce \"x\""), std::string::npos)
        << status.message();
    data.assign(4, 1);
    ASSERT_OK(member.allreduce("x", data));
    EXPECT_EQ(data, std::vector<float>(4, static_cast<float>(size)));
  });
}

TEST_P(EngineTest, RefusesANameInFlightAndTheWholeGroupWithIt) {
  run([](Member& member, int rank, int size) {
    std::vector<float> first(2, 1);
    std::vector<float> second(2, 1);
    ASSERT_OK(member.barrier());
    if (rank == 0) {
      const auto started = member.start_allreduce("x", first);
      std::vector<TensorTask> group;
      group.push_back(Member::task<float>(RequestType::kAllreduce, "y", second, &second, {2}));
      group.push_back(Member::task<float>(RequestType::kAllreduce, "x", second, &second, {2}));
      const auto refused = member.submit(std::move(group));
      EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(refused.status().message().find("\"x\""), std::string::npos);
      ASSERT_OK(member.barrier());  // the other ranks have not had "x" so far
      ASSERT_OK(member.finish(started));
    } else {
      ASSERT_OK(member.barrier());
      ASSERT_OK(member.allreduce("x", first));
    }
    EXPECT_EQ(first, std::vector<float>(2, static_cast<float>(size)));
    ASSERT_OK(member.allreduce("y", second));  // "y" was not left behind
  });
}

TEST_P(EngineTest, LetsRanksWithoutDataJoin) {
  run([](Member& member, int rank, int size) {
    // Rank r has r + 1 batches; ranks that have more continue without the ranks that have joined.
    for (int batch = 0; batch <= rank; ++batch) {
      std::vector<float> sum = {1, 2};
      std::vector<float> product = {static_cast<float>(rank + 2)};
      std::vector<float> least = {static_cast<float>(rank + 2)};
      std::vector<float> greatest = {static_cast<float>(-rank - 2)};
      const std::string suffix = std::to_string(batch);
      ASSERT_OK(member.allreduce("sum" + suffix, sum));
      TensorTask scaled =
          Member::task<float>(RequestType::kAllreduce, "product" + suffix, product, &product, {1});
      scaled.request.op = ReduceOp::kProduct;
      scaled.request.prescale = 0.5;
      ASSERT_OK(member.finish(member.submit(std::move(scaled))));
      ASSERT_OK(member.allreduce("min" + suffix, least, ReduceOp::kMin));
      ASSERT_OK(member.allreduce("max" + suffix, greatest, ReduceOp::kMax));
      const auto present = static_cast<float>(size - batch);
      EXPECT_EQ(sum, (std::vector<float>{present, 2 * present}));
      float expected = 1;
      for (int r = batch; r < size; ++r) expected *= 0.5F * static_cast<float>(r + 2);
      EXPECT_EQ(product.front(), expected);
      EXPECT_EQ(least.front(), static_cast<float>(batch + 2));
      EXPECT_EQ(greatest.front(), static_cast<float>(-batch - 2));
    }
    auto join = Operation::make(std::vector<TensorTask>{});
    ASSERT_OK(member.engine().submit(*join, SubmitHint::kWillWait));
    ASSERT_OK(member.engine().wait(*join));
    ASSERT_OK(join->status());
    EXPECT_EQ(join->last_joined(), size - 1);
    std::vector<float> after = {1};
    ASSERT_OK(member.allreduce("after", after));
    EXPECT_EQ(after.front(), static_cast<float>(size));
  });
}

TEST_P(EngineTest, CompletesForCallersWhoDoNotWait) {
  run([](Member& member, int rank, int size) {
    std::vector<float> data = ramp(rank, 1000);
    std::atomic<int> called{0};
    std::vector<TensorTask> tasks;
    tasks.push_back(Member::task<float>(RequestType::kAllreduce, "x", data, &data, {1000}));
    auto operation = Operation::make(std::move(tasks), nullptr, [&](const Operation& done) {
      EXPECT_TRUE(done.status().is_ok());
      called = 1;
      called.notify_one();
    });
    ASSERT_OK(member.engine().submit(*operation));
    called.wait(0);
    EXPECT_TRUE(operation->is_done());
    EXPECT_EQ(data, sum_of_ramps(size, 1000));
  });
}

// A submission just when the engine's own thread goes to sleep has to wake it: that thread sleeps
// for ten seconds when there is nothing to do.
TEST(EngineThread, HearsOfASubmissionThatComesWhileItGoesToSleep) {
  run_members(TransportKind::kShm, 2, [](Transport& transport, ControlPlane& control) {
    Member member(transport, control);
    std::vector<float> data = {1};
    std::mt19937 random(static_cast<uint32_t>(transport.rank()));
    for (int step = 0; step < 600; ++step) {
      const auto started = member.start_allreduce("a", data);
      ASSERT_OK(started);
      const Deadline limit = Deadline::after(std::chrono::seconds(8));
      while (!(*started)->is_done() && !limit.expired()) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      ASSERT_TRUE((*started)->is_done()) << "step " << step;
      const auto until =
          Deadline::Clock::now() + std::chrono::microseconds(random() % 40);  // not always at once
      while (Deadline::Clock::now() < until) {
      }
    }
    member.shutdown();
  });
}

TEST_P(EngineTest, ServesSeveralThreadsOfARank) {
  run([](Member& member, int rank, int size) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 20; ++i) {
          std::vector<float> data = ramp(rank, 10 + i);
          const std::string name = std::to_string(thread) + "." + std::to_string(i);
          EXPECT_TRUE(member.allreduce(name, data).is_ok());
          EXPECT_EQ(data, sum_of_ramps(size, 10 + i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(EngineTest, FailsOnlyTheRankThatHasNoMemoryForAnOutput) {
  run([](Member& member, int rank, int size) {
    const std::vector<int32_t> mine = {rank};
    std::vector<int32_t> memory(size);
    std::vector<TensorTask> tasks;
    tasks.push_back(Member::task<int32_t>(RequestType::kAllgather, "g", mine, nullptr, {1}));
    auto operation = Operation::make(std::move(tasks), [&](int, const Shape& shape) -> std::byte* {
      EXPECT_EQ(shape, Shape{size});
      return rank == 1 ? nullptr : reinterpret_cast<std::byte*>(memory.data());
    });
    ASSERT_OK(member.engine().submit(*operation, SubmitHint::kWillWait));
    ASSERT_OK(member.engine().wait(*operation));
    EXPECT_EQ(operation->status().is_ok(), rank != 1);
    if (rank != 1) {
      EXPECT_EQ(memory.back(), size - 1);
    }
    ASSERT_OK(member.barrier());
  });
}

TEST_P(EngineTest, EndsEverywhereWhenOneRankShutsDown) {
  run([](Member& member, int rank, int size) {
    ASSERT_OK(member.barrier());
    std::vector<float> data = {1};
    if (rank == size - 1) {
      member.shutdown();
    } else {
      const Status status = member.allreduce("never complete", data);
      EXPECT_EQ(status.code(), StatusCode::kAborted) << status.to_string();
    }
    EXPECT_EQ(member.allreduce("later", data).code(), StatusCode::kAborted);
  });
}

TEST_P(EngineTest, WorksWithoutCacheAndWithOneThatIsTooSmall) {
  for (const size_t capacity : {0, 3}) {
    run(
        [](Member& member, int rank, int size) {
          for (int step = 0; step < 4; ++step) {
            std::vector<std::vector<float>> data(7, ramp(rank, 4));
            std::vector<Result<Operation::Ref>> started;
            for (int i = 0; i < 7; ++i) {
              const int tensor = (i + rank + step) % 7;
              started.push_back(member.start_allreduce("t" + std::to_string(tensor), data[tensor]));
            }
            for (const auto& operation : started) ASSERT_OK(member.finish(operation));
            for (const auto& values : data) ASSERT_EQ(values, sum_of_ramps(size, 4));
          }
        },
        [&](WorkerOptions& options) { options.cache_capacity = capacity; });
  }
}

// Announcements and plans that are longer than the rings they go through.
TEST_P(EngineTest, NegotiatesLongNamesOfManyTensors) {
  run([](Member& member, int rank, int size) {
    constexpr int kTensors = 300;
    std::vector<std::vector<float>> data(kTensors, std::vector<float>{static_cast<float>(rank)});
    std::vector<Result<Operation::Ref>> started;
    for (int i = 0; i < kTensors; ++i) {
      const int tensor = rank % 2 == 0 ? i : kTensors - 1 - i;
      started.push_back(
          member.start_allreduce(std::string(300, 'x') + std::to_string(tensor), data[tensor]));
    }
    for (const auto& operation : started) ASSERT_OK(member.finish(operation));
    for (const auto& values : data) {
      ASSERT_EQ(values.front(), static_cast<float>(size * (size - 1) / 2));
    }
  });
}

TEST_P(EngineTest, WaitsForCompanyNoLongerThanItMay) {
  run(
      [](Member& member, int rank, int size) {
        std::vector<float> a = ramp(rank, 4);
        ASSERT_OK(member.allreduce("a", a));
        EXPECT_EQ(a, sum_of_ramps(size, 4));
      },
      [](WorkerOptions& options) { options.tunables.cycle_time_ms = 5; });
}

TEST_P(EngineTest, LimitsTheTimeWithoutProgressWhateverTheSizeOfTheData) {
  const std::vector<uint8_t> mine(32 << 20);
  std::latch others_failed(GetParam().ranks - 1);
  const auto outcomes = testing::outcomes_of_members(
      GetParam().kind, GetParam().ranks,
      [&](Transport& transport, ControlPlane& control) -> Status {
        WorkerOptions options = worker_options(transport.size());
        options.host_backend.timeout = std::chrono::milliseconds(300);
        Member member(transport, control, options);
        HVD_TRY(member.barrier());
        std::vector<TensorTask> tasks;
        tasks.push_back(Member::task<uint8_t>(RequestType::kAllgather, "large", mine, nullptr,
                                              {static_cast<int64_t>(mine.size())}));
        const auto operation = Operation::make(std::move(tasks), [&](int, const Shape&) {
          // It is alive but does not take part. A limit that grew by a millisecond for each KiB
          // would be longer than this.
          const Deadline long_enough = Deadline::after(std::chrono::seconds(20));
          while (transport.rank() == 0 && !others_failed.try_wait() && !long_enough.expired()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          EXPECT_TRUE(transport.rank() != 0 || others_failed.try_wait()) << "the others still wait";
          return static_cast<std::byte*>(nullptr);
        });
        HVD_TRY(member.engine().submit(*operation, SubmitHint::kWillWait));
        HVD_TRY(member.engine().wait(*operation));
        if (transport.rank() != 0) others_failed.count_down();
        return operation->status();
      });
  for (const Status& outcome : outcomes) EXPECT_FALSE(outcome.is_ok());
}

TEST_P(EngineTest, FailsWhatIsInFlightEverywhereWhenARankIsLost) {
  const auto outcomes = testing::outcomes_of_members(
      GetParam().kind, GetParam().ranks, [](Transport& transport, ControlPlane& control) -> Status {
        Member member(transport, control);
        HVD_TRY(member.barrier());
        if (transport.rank() == transport.size() - 1)
          return internal_error("the victim");  // aborts its transport
        std::vector<float> data = {1};
        const Status waited = member.allreduce("never complete", data);
        EXPECT_FALSE(waited.is_ok());
        const auto later = member.start_allreduce("later", data);
        EXPECT_FALSE(later.is_ok()) << "the engine should have ended";
        return waited;
      });
  for (const Status& outcome : outcomes) {
    EXPECT_NE(outcome.message().find("the victim"), std::string::npos) << outcome.to_string();
  }
}

TEST_P(EngineTest, SaysWhoStallsAndEndsTheJobIfAsked) {
  run(
      [](Member& member, int rank, int size) {
        ASSERT_OK(member.barrier());
        std::vector<float> data = {1};
        const Status status = member.allreduce(rank == size - 1 ? "elsewhere" : "here", data);
        EXPECT_EQ(status.code(), StatusCode::kAborted);
        for (const char* expected :
             {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "\"here\"", "\"elsewhere\"", "diverged",
              "last completed \"barrier.noname\"", "wait for allreduce"}) {
          EXPECT_NE(status.message().find(expected), std::string::npos)
              << expected << " is missing in: " << status.message();
        }
      },
      [](WorkerOptions& options) {
        options.stall = {.warning_seconds = 0.1, .shutdown_seconds = 0.25};
      });
}

TEST_P(EngineTest, SaysWhoHasNotJoined) {
  run(
      [](Member& member, int rank, int size) {
        ASSERT_OK(member.barrier());
        const auto join = Operation::make(std::vector<TensorTask>{});
        if (rank == size - 1) {
          // Until the other ranks have given up.
          while (member.engine().ended().is_ok()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return;
        }
        ASSERT_OK(member.engine().submit(*join, SubmitHint::kWillWait));
        ASSERT_OK(member.engine().wait(*join, Deadline::after(std::chrono::seconds(60))));
        EXPECT_EQ(join->status().code(), StatusCode::kAborted);
        const std::string missing = "rank " + std::to_string(size - 1) + "! does not";
        for (const std::string& expected : {std::string("\"join\""), missing,
                                            std::string("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")}) {
          EXPECT_NE(join->status().message().find(expected), std::string::npos)
              << expected << " is missing in: " << join->status().message();
        }
      },
      [](WorkerOptions& options) {
        options.stall = {.warning_seconds = 0.1, .shutdown_seconds = 0.25};
      });
}

std::vector<World> worlds() {
  std::vector<World> all;
  for (const TransportKind kind : testing::all_transport_kinds()) {
    for (const int ranks : {2, 3, 4}) {
      if (kind != TransportKind::kShm && kind != TransportKind::kMesh && ranks == 4) continue;
      all.push_back({kind, ranks});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Worlds, EngineTest, ::testing::ValuesIn(worlds()), [](const auto& world) {
  return testing::to_string(world.param.kind) + std::to_string(world.param.ranks);
});

// A single rank ----------------------------------------------------------------------------------

class Alone : public ::testing::Test {
 protected:
  void start(const WorkerOptions& worker) {
    EngineOptions options;
    options.worker = worker;
    auto started = Engine::start(options, hub_.transport(0), nullptr);
    ASSERT_OK(started.status());
    engine_ = std::move(started).value();
  }
  Status allreduce(const std::string& name, std::vector<float>& data, Deadline deadline) {
    std::vector<TensorTask> tasks;
    tasks.push_back(Member::task<float>(RequestType::kAllreduce, name, data, &data,
                                        {static_cast<int64_t>(data.size())}));
    const auto operation = Operation::make(std::move(tasks));
    HVD_TRY(engine_->submit(*operation, SubmitHint::kWillWait));
    HVD_TRY(engine_->wait(*operation, deadline));
    return operation->status();
  }

  InprocHub hub_{1};
  std::unique_ptr<Engine> engine_;
};

TEST_F(Alone, DoesNotWaitForTheCycleTime) {
  WorkerOptions options = worker_options(1);
  options.tunables.cycle_time_ms = 60'000;
  start(options);
  std::vector<float> data = {1, 2};
  EXPECT_OK(allreduce("a", data, Deadline::never()));
  EXPECT_OK(allreduce("a", data, Deadline::never()));
  EXPECT_EQ(data, (std::vector<float>{1, 2}));
}

TEST_F(Alone, TunesWithoutHanging) {
  WorkerOptions options = worker_options(1);
  options.autotune = AutotuneOptions{};
  options.autotune->warmup_samples = 0;
  options.autotune->steps_per_sample = 1;
  start(options);
  std::vector<float> data = {1, 2};
  for (int step = 0; step < 300; ++step) ASSERT_OK(allreduce("a", data, Deadline::never()));
}

TEST_F(Alone, AWaitOnAnotherThreadEndsWithTheOperation) {
  start(worker_options(1));
  std::vector<float> data = {1};
  std::vector<TensorTask> tasks;
  tasks.push_back(Member::task<float>(RequestType::kAllreduce, "a", data, nullptr, {1}));
  std::latch running(1);
  std::latch waiting(1);
  const auto operation = Operation::make(std::move(tasks), [&](int, const Shape&) {
    running.count_down();
    waiting.wait();
    return reinterpret_cast<std::byte*>(data.data());
  });
  Status waited = internal_error("has not waited");
  std::thread waiter([&] {
    running.wait();
    waiting.count_down();
    waited = engine_->wait(*operation);
  });
  EXPECT_OK(engine_->submit(*operation));
  waiter.join();
  EXPECT_OK(waited);
  EXPECT_TRUE(operation->is_done());
}

// The end ----------------------------------------------------------------------------------------

TEST_P(EngineTest, AShutdownThatTimesOutLetsARunningCollectiveComeBackFirst) {
  std::atomic<bool> is_shut_down{false};
  std::latch submitted(GetParam().ranks);
  const auto outcomes = testing::outcomes_of_members(
      GetParam().kind, GetParam().ranks,
      [&](Transport& transport, ControlPlane& control) -> Status {
        Member member(transport, control);
        HVD_TRY(member.barrier());
        // Rank 0 never comes to the collective that all have agreed on: its callback waits for the
        // end of another rank's shutdown.
        const std::vector<float> mine(1 << 20);
        std::vector<TensorTask> tasks;
        tasks.push_back(Member::task<float>(RequestType::kAllgather, "g", mine, nullptr,
                                            {static_cast<int64_t>(mine.size())}));
        std::vector<std::byte> memory;
        const auto operation =
            Operation::make(std::move(tasks), [&](int, const Shape& shape) -> std::byte* {
              const Deadline limit = Deadline::after(std::chrono::seconds(30));
              while (transport.rank() == 0 && !is_shut_down && !limit.expired()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
              memory.resize(static_cast<size_t>(elements_of(shape)) * sizeof(float));
              return memory.data();
            });
        HVD_TRY(member.engine().submit(*operation));
        submitted.arrive_and_wait();
        if (transport.rank() == 0) {
          while (!operation->is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return Status::ok();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        member.engine().shutdown(aborted("shut down"),
                                 Deadline::after(std::chrono::milliseconds(20)));
        is_shut_down = true;
        EXPECT_TRUE(operation->is_done());
        // Its memory belongs to the caller again: the address sanitizer finds late writes to it.
        memory = {};
        return Status::ok();
      });
  testing::expect_all_ok(GetParam().kind, outcomes);
}

TEST(Autotune, TriesValuesKeepsTheBestAndDisturbsNoResult) {
  const std::string log = ::testing::TempDir() + "hvd-autotune-test.csv";
  run_members(TransportKind::kMesh, 3, [&](Transport& transport, ControlPlane& control) {
    WorkerOptions options = worker_options(transport.size());
    options.autotune.emplace();
    options.autotune->warmup_samples = 1;
    options.autotune->steps_per_sample = 1;
    options.autotune->most_samples = 4;
    options.autotune_log = log;
    Member member(transport, control, options);
    for (int step = 0; step < 120; ++step) {
      std::vector<std::vector<float>> data(5);
      std::vector<Result<Operation::Ref>> started;
      for (int i = 0; i < 5; ++i) {
        data[i] = ramp(transport.rank(), 100 * (i + 1));
        started.push_back(member.start_allreduce("t" + std::to_string(i), data[i]));
      }
      for (const auto& operation : started) ASSERT_OK(member.finish(operation));
      for (const auto& values : data) {
        ASSERT_EQ(values, sum_of_ramps(transport.size(), static_cast<int>(values.size())));
      }
    }
    member.shutdown();
  });
  std::ifstream file(log);
  std::vector<std::string> rows;
  for (std::string row; std::getline(file, row);) rows.push_back(row);
  ASSERT_GE(rows.size(), 6u);  // the header, initial values, four samples, and the best again
  EXPECT_EQ(rows.front(), Autotuner::kHeader);
  EXPECT_NE(std::find(rows.begin() + 1, rows.end() - 1, rows.back()), rows.end() - 1);
}

TEST(Tracing, FollowsTensorsFromTheFirstRankThatHasThemToTheEnd) {
  const std::string path = ::testing::TempDir() + "hvd-engine-timeline.json";
  Timeline timeline(/*rank=*/0);
  ASSERT_OK(timeline.start(path, /*mark_cycles=*/true));
  run_members(TransportKind::kShm, 2, [&](Transport& transport, ControlPlane& control) {
    WorkerOptions options = worker_options(transport.size());
    if (transport.rank() == 0) {
      options.observer = std::make_shared<Tracer>(timeline, "", options.host_backend.job_ranks,
                                                  options.cache_capacity);
    }
    Member member(transport, control, options);
    for (int step = 0; step < 2; ++step) {
      std::vector<float> data = ramp(transport.rank(), 6);
      ASSERT_OK(member.allreduce("x", data));
    }
    std::vector<float> odd(transport.rank() + 1, 1.0F);
    EXPECT_FALSE(member.allreduce("y", odd).is_ok());
    member.shutdown();
  });
  ASSERT_OK(timeline.stop());
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file);
  std::vector<std::string> of_x;
  for (const auto& event : events) {
    if (event.value("pid", -1) == 1 && event.contains("ph") && event["ph"] != "M") {
      of_x.push_back(event["ph"].get<std::string>() + " " + event.value("name", ""));
    }
  }
  // Either rank may be ready first.
  ASSERT_EQ(of_x.size(), 16u) << events.dump(1);
  EXPECT_EQ(of_x[0], "B NEGOTIATE_ALLREDUCE");
  EXPECT_EQ((std::set<std::string>{of_x[1], of_x[2]}), (std::set<std::string>{"X 0", "X 1"}));
  EXPECT_EQ(of_x[3].substr(0, 1), "E");
  EXPECT_EQ(of_x[4], "B ALLREDUCE");
  EXPECT_EQ(of_x[5], "B GLOO_ALLREDUCE");
  EXPECT_EQ(of_x[6].substr(0, 1), "E");
  EXPECT_EQ(of_x[7].substr(0, 1), "E");
  EXPECT_NE(events.dump().find("NEGOTIATE_ALLREDUCE"), std::string::npos);
  EXPECT_NE(events.dump().find("\"ERROR\""), std::string::npos);
  EXPECT_NE(events.dump().find("CYCLE_START"), std::string::npos);
}

TEST(Tracing, TellsProcessSetsApartAndNamesRanksOfTheJob) {
  const std::string path = ::testing::TempDir() + "hvd-engine-sets-timeline.json";
  Timeline timeline(/*rank=*/5);
  ASSERT_OK(timeline.start(path, /*mark_cycles=*/true));
  run_members(TransportKind::kShm, 2, [&](Transport& transport, ControlPlane& control) {
    WorkerOptions options = worker_options(transport.size());
    options.host_backend.job_ranks = {5, 9};
    if (transport.rank() == 0) {
      options.observer = std::make_shared<Tracer>(
          timeline, "process set 3: ", options.host_backend.job_ranks, options.cache_capacity);
    }
    Member member(transport, control, options);
    std::vector<float> data = ramp(transport.rank(), 6);
    ASSERT_OK(member.allreduce("x", data));
    member.shutdown();
  });
  ASSERT_OK(timeline.stop());
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file);
  std::set<std::string> names;
  std::set<std::string> ready;
  for (const auto& event : events) {
    if (event.value("name", "") == "process_name") names.insert(event["args"]["name"]);
    if (event["ph"] == "X") ready.insert(event["name"]);
  }
  EXPECT_EQ(names, (std::set<std::string>{"rank 5", "process set 3: x"}));
  EXPECT_EQ(ready, (std::set<std::string>{"5", "9"}));
  EXPECT_EQ(events.dump().find("CYCLE_START"), std::string::npos);
}

// Same values, same bits, whatever the order of submission, the fusion and the timing.
TEST(Deterministic, BitsDependOnValuesAlone) {
  constexpr int kTensors = 200;
  constexpr int kRounds = 50;
  // On hosts of their own five ranks would choose a ring for some batches and not for others:
  // without the option this fails there.
  for (const auto& [kind, ranks] : {World{TransportKind::kShm, 3}, World{TransportKind::kMesh, 3},
                                    World{TransportKind::kInproc, 5}}) {
    run_members(kind, ranks, [&](Transport& transport, ControlPlane& control) {
      WorkerOptions options = worker_options(transport.size());
      options.host_backend.allreduce.deterministic = true;
      options.fusion.fuse_adasum = false;
      Member member(transport, control, options);
      std::mt19937 values(static_cast<unsigned>(transport.rank()) + 1);
      std::mt19937 chance(static_cast<unsigned>(transport.rank()) + 77);
      std::vector<std::vector<float>> inputs(kTensors);
      for (int i = 0; i < kTensors; ++i) {
        inputs[i].resize(1 + i * 131 % 3000);
        for (float& value : inputs[i]) {
          value = std::ldexp(static_cast<float>(values() % 1000003) - 500000.F,
                             static_cast<int>(values() % 40) - 20);
        }
      }
      std::vector<std::vector<float>> expected;
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::vector<float>> data = inputs;
        std::vector<int> order(kTensors);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), chance);
        std::vector<Result<Operation::Ref>> started;
        for (const int i : order) {
          started.push_back(
              member.start_allreduce("t" + std::to_string(i), data[i], ReduceOp::kAverage));
          if (chance() % 64 == 0) std::this_thread::yield();
        }
        for (const auto& operation : started) ASSERT_OK(member.finish(operation));
        if (round == 0) {
          expected = data;
        } else {
          for (int i = 0; i < kTensors; ++i) {
            ASSERT_EQ(std::memcmp(data[i].data(), expected[i].data(), data[i].size() * 4), 0)
                << "tensor " << i << " in round " << round;
          }
        }
      }
      member.shutdown();
    });
  }
}

}  // namespace
}  // namespace hvd
