// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "capi/testing/scenario.h"

namespace scenario {
namespace {

using hvd::Op;

int sum_of_ranks() { return hvd::size() * (hvd::size() - 1) / 2; }

// Small whole numbers, which every dtype represents exactly.
template <typename T>
T whole(int number) {
  if constexpr (std::is_same_v<T, hvd::bfloat16>) {
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16)};
  } else if constexpr (std::is_same_v<T, hvd::half>) {
    // The bias of the exponent changes from 127 to 15, the fraction from 23 to 10 bits.
    if (number == 0) return {0};
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    return {static_cast<uint16_t>((bits >> 13) - ((127u - 15u) << 10))};
  } else {
    return static_cast<T>(number);
  }
}

template <typename T>
void sum_in_place() {
  std::vector<T> values;
  std::vector<T> expected;
  for (int i = 0; i < 1000; ++i) {
    values.push_back(whole<T>(hvd::rank() % 3 + i % 5));
    int sum = hvd::size() * (i % 5);
    for (int rank = 0; rank < hvd::size(); ++rank) sum += rank % 3;
    expected.push_back(whole<T>(sum));
  }
  hvd::allreduce(values, {.op = Op::kSum});
  EXPECT(values == expected);
}

void every_dtype_is_summed() {
  sum_in_place<uint8_t>();
  sum_in_place<int8_t>();
  sum_in_place<uint16_t>();
  sum_in_place<int16_t>();
  sum_in_place<uint32_t>();
  sum_in_place<int32_t>();
  sum_in_place<uint64_t>();
  sum_in_place<int64_t>();
  sum_in_place<hvd::half>();
  sum_in_place<hvd::bfloat16>();
  sum_in_place<float>();
  sum_in_place<double>();
  std::array<bool, 2> any = {hvd::rank() == 1, false};
  hvd::allreduce(any, {.op = Op::kMax});
  EXPECT(any[0] && !any[1]);
}

void every_op_reduces() {
  const int n = hvd::size();
  const std::vector<double> mine = {double(hvd::rank() + 1), double(-hvd::rank())};
  std::vector<double> out(2);
  hvd::allreduce(mine, out);
  EXPECT(out[0] == (n + 1) / 2.0 && out[1] == -(n - 1) / 2.0);
  hvd::allreduce(mine, out, {.op = Op::kMin});
  EXPECT(out[0] == 1 && out[1] == 1 - n);
  hvd::allreduce(mine, out, {.op = Op::kMax});
  EXPECT(out[0] == n && out[1] == 0);
  hvd::allreduce(mine, out, {.op = Op::kProduct});
  double factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= i;
  EXPECT(out[0] == factorial && out[1] == 0);
  hvd::allreduce(mine, out, {.op = Op::kSum, .prescale = 2, .postscale = 0.25});
  EXPECT(out[0] == n * (n + 1) / 4.0);
  EXPECT(mine[0] == hvd::rank() + 1);
  if (std::has_single_bit(unsigned(n))) {
    std::vector<float> same = {3, 4};
    hvd::allreduce(same, {.op = Op::kAdasum});
    EXPECT(std::abs(same[0] - 3) < 1e-5 && std::abs(same[1] - 4) < 1e-5);
  }
}

void large_tensors_are_reduced() {
  std::vector<float> in(1'000'003, float(hvd::rank()));
  std::vector<float> out(in.size());
  hvd::allreduce(in, out, {.op = Op::kSum});
  for (const float value : out) EXPECT(value == sum_of_ranks());
}

void rows_are_gathered_by_rank() {
  // Rank 0 has no rows.
  const std::vector<int> mine(3 * size_t(hvd::rank()), hvd::rank());
  const std::vector<int> all = hvd::allgather(mine, {.row = 3});
  EXPECT(all.size() == 3 * size_t(sum_of_ranks()));
  size_t at = 0;
  for (int rank = 0; rank < hvd::size(); ++rank) {
    for (int i = 0; i < 3 * rank; ++i) EXPECT(all[at++] == rank);
  }
}

void every_rank_can_be_root() {
  for (int root = 0; root < hvd::size(); ++root) {
    std::vector<int64_t> values(100, hvd::rank() == root ? 7 + root : -1);
    hvd::broadcast(values, root);
    EXPECT(values == std::vector<int64_t>(100, 7 + root));
  }
}

void rows_are_exchanged() {
  const int n = hvd::size();
  // Rank r sends r + to rows of one element to each rank `to`.
  std::vector<int32_t> splits;
  std::vector<int> values;
  for (int to = 0; to < n; ++to) {
    splits.push_back(hvd::rank() + to);
    for (int i = 0; i < splits.back(); ++i) values.push_back(100 * hvd::rank() + to);
  }
  const auto got = hvd::alltoall(values, splits);
  std::vector<int32_t> expected_splits;
  std::vector<int> expected;
  for (int from = 0; from < n; ++from) {
    expected_splits.push_back(from + hvd::rank());
    expected.insert(expected.end(), static_cast<size_t>(expected_splits.back()),
                    100 * from + hvd::rank());
  }
  EXPECT(got.received_splits == expected_splits);
  EXPECT(got.values == expected);
  const auto equal = hvd::alltoall(std::vector<int>(size_t(n), hvd::rank()));
  for (int from = 0; from < n; ++from) EXPECT(equal.values[size_t(from)] == from);
}

void rows_are_reduced_and_scattered() {
  const int n = hvd::size();
  std::vector<float> values;  // 2n + 1 rows of 3
  for (int i = 0; i < 3 * (2 * n + 1); ++i) values.push_back(float(hvd::rank() + i));
  const auto mine = hvd::reducescatter(values, {.op = Op::kSum, .row = 3});
  const int first = 2 * hvd::rank() + std::min(hvd::rank(), 1);
  const int rows = 2 + (hvd::rank() == 0 ? 1 : 0);
  EXPECT(mine.size() == size_t(3 * rows));
  for (int i = 0; i < 3 * rows; ++i) {
    EXPECT(mine[size_t(i)] == float(sum_of_ranks() + n * (3 * first + i)));
  }
}

void groups_complete_as_one() {
  std::vector<std::vector<float>> group;
  for (int i = 0; i < 50; ++i) group.emplace_back(size_t(i + 1), float(hvd::rank() * i));
  hvd::grouped_allreduce(std::span(group), {.op = Op::kSum});
  for (int i = 0; i < 50; ++i) {
    EXPECT(group[size_t(i)] == std::vector<float>(size_t(i + 1), float(sum_of_ranks() * i)));
  }
}

void any_order_of_names_will_do() {
  constexpr int kCount = 60;
  std::vector<int> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  for (int step = 0; step < 3; ++step) {
    std::shuffle(order.begin(), order.end(), std::mt19937(unsigned(100 * step + hvd::rank())));
    std::vector<std::vector<int>> data(kCount, std::vector<int>(20, hvd::rank()));
    std::vector<hvd::Future<>> futures;
    for (const int i : order) {
      futures.push_back(hvd::allreduce_async(
          data[size_t(i)], {.name = "shuffled." + std::to_string(i), .op = Op::kSum}));
    }
    for (auto& future : futures) future.get();
    for (const auto& values : data) EXPECT(values == std::vector<int>(20, sum_of_ranks()));
  }
}

struct Calls {
  std::atomic<int> good{0};
  std::atomic<int> all{0};
};

// No thread waits: the engine thread has to do the work.
void callbacks_run_without_a_waiting_thread() {
  constexpr int kCount = 20;
  Calls calls;
  std::vector<std::vector<float>> data(kCount, std::vector<float>(10, 1));
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "called." + std::to_string(i);
    const int64_t count = 10;
    hvd_request request = HVD_REQUEST_INIT;
    request.op = HVD_SUM;
    request.context = &calls;
    request.done = [](void* context, hvd_operation*, hvd_code code, const char*) {
      auto* to = static_cast<Calls*>(context);
      if (code == HVD_OK) ++to->good;
      ++to->all;
    };
    float* values = data[size_t(i)].data();
    const hvd_tensor tensor = {sizeof(tensor), name.c_str(), values, values, &count, 1,
                               HVD_FLOAT32,    nullptr,      0};
    EXPECT(hvd_submit(&request, &tensor, 1, nullptr) == HVD_OK);
  }
  const int64_t limit = now_us() + 30'000'000;
  while (calls.all < kCount && now_us() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT(calls.good == kCount);
  for (const auto& values : data) EXPECT(values == std::vector<float>(10, float(hvd::size())));
}

// Every rank gets the error, and the name can be used again.
void disagreement_fails_on_every_rank() {
  const bool last = hvd::rank() == hvd::size() - 1;
  const auto expect_mismatch = [](const std::function<void()>& body) {
    const hvd::Error error = failure_of(body);
    EXPECT(error.code() == HVD_PRECONDITION);
    EXPECT(contains(error, "Mismatched"));
    EXPECT(contains(error, "\"odd\""));
  };
  std::vector<float> values(6, 1);
  std::vector<double> doubles(6, 1);
  expect_mismatch([&] { hvd::allreduce(std::span(values).first(last ? 5 : 6), {.name = "odd"}); });
  expect_mismatch([&] {
    if (last) {
      hvd::allreduce(doubles, {.name = "odd"});
    } else {
      hvd::allreduce(values, {.name = "odd"});
    }
  });
  expect_mismatch(
      [&] { hvd::allreduce(values, {.name = "odd", .op = last ? Op::kMin : Op::kMax}); });
  expect_mismatch([&] { hvd::allreduce(values, {.name = "odd", .prescale = last ? 2.0 : 1.0}); });
  expect_mismatch([&] { hvd::broadcast(values, last ? 1 : 0, {.name = "odd"}); });
  expect_mismatch([&] {
    if (last) {
      (void)hvd::allgather(values, {.name = "odd"});
    } else {
      hvd::allreduce(values, {.name = "odd"});
    }
  });
  expect_mismatch([&] { (void)hvd::allgather(values, {.name = "odd", .row = last ? 2u : 3u}); });
  hvd::allreduce(values, {.name = "odd"});
  EXPECT(values == std::vector<float>(6, 1));
  // A name twice in flight is an error of this rank alone; the first operation continues.
  if (!last) hvd::barrier();
  auto first = hvd::allreduce_async(values, {.name = "twice"});
  if (last) {
    const hvd::Error error = failure_of([&] { hvd::allreduce(doubles, {.name = "twice"}); });
    EXPECT(error.code() == HVD_INVALID_ARGUMENT && contains(error, "\"twice\""));
    hvd::barrier();
  }
  first.get();
}

void process_sets_work_alone() {
  const int n = hvd::size();
  const hvd::ProcessSet evens(1);
  EXPECT(evens.size() == (n + 1) / 2);
  EXPECT(evens.included() == (hvd::rank() % 2 == 0));
  std::vector<int> values = {1};
  if (evens.included()) {
    hvd::allreduce(values, {.op = Op::kSum, .process_set = evens.id()});
    EXPECT(values[0] == evens.size());
    EXPECT(evens.rank() == hvd::rank() / 2);
  } else {
    const auto error = failure_of([&] { hvd::allreduce(values, {.process_set = evens.id()}); });
    EXPECT(error.code() == HVD_INVALID_ARGUMENT && contains(error, "is not in process set 1"));
  }
  // All ranks except the first, while the set of even ranks is busy.
  std::vector<int32_t> tail(size_t(n - 1));
  std::iota(tail.begin(), tail.end(), 1);
  for (int round = 0; round < 3; ++round) {
    const hvd::ProcessSet others = hvd::ProcessSet::add(tail);
    EXPECT(others.id() == 2);
    EXPECT(others.ranks() == tail);
    if (others.included()) {
      std::vector<double> data(1000, hvd::rank());
      hvd::allreduce(data, {.op = Op::kSum, .process_set = others.id()});
      EXPECT(data.back() == sum_of_ranks());
      hvd::barrier(others.id());
    }
  }
  EXPECT(failure_of([&] { (void)hvd::ProcessSet(2).ranks(); }).code() == HVD_INVALID_ARGUMENT);
  const std::vector<int32_t> even_ranks = evens.ranks();
  EXPECT(failure_of([&] { hvd::ProcessSet::add(even_ranks); }).code() == HVD_ALREADY_EXISTS);
  EXPECT(failure_of([&] { hvd::ProcessSet::add({0, n}); }).code() == HVD_INVALID_ARGUMENT);
  const auto disagreed = failure_of([&] {
    hvd::ProcessSet::add(hvd::rank() == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{1});
  });
  EXPECT(disagreed.code() == HVD_PRECONDITION);
}

// Rank r has r more batches than rank 0.
void ranks_with_less_data_join() {
  for (int step = 0; step < hvd::rank(); ++step) {
    const int left = hvd::size() - step - 1;
    std::vector<float> values(5, 1);
    hvd::allreduce(values, {.name = "uneven", .op = Op::kSum});
    EXPECT(values == std::vector<float>(5, float(left)));
    std::vector<int> least(1, 3);
    hvd::allreduce(least, {.name = "least", .op = Op::kMin});
    EXPECT(least[0] == 3);
  }
  const int last = hvd::join();
  EXPECT(last >= 0 && last < hvd::size());
  const auto all = hvd::allgather(std::vector<int>{last});
  EXPECT(all == std::vector<int>(size_t(hvd::size()), last));
}

// Operations that other ranks wait for fail when one rank leaves.
void shutdown_of_one_ends_all() {
  if (hvd::rank() == 0) {
    hvd::barrier();
    hvd::shutdown();
    return;
  }
  std::vector<float> values(3);
  auto never = hvd::allreduce_async(values, {.name = "never"});
  hvd::barrier();
  const hvd::Error error = failure_of([&] { never.get(); });
  EXPECT(error.code() == HVD_ABORTED);
  EXPECT(contains(error, "shut down"));
  EXPECT(contains(error, "rank 0 has left the job"));
  EXPECT(failure_of([] { hvd::barrier(); }).code() == HVD_ABORTED);
  EXPECT(hvd::is_initialized());
  hvd::shutdown();
  EXPECT(!hvd::is_initialized());
}

}  // namespace

void run_collectives() {
  std::vector<int32_t> evens;
  const int size = std::atoi(std::getenv("HOROVOD_SIZE"));
  for (int32_t rank = 0; rank < size; rank += 2) evens.push_back(rank);
  hvd::init({.process_sets = {evens}});
  EXPECT(hvd::size() == size && hvd::rank() == std::atoi(std::getenv("HOROVOD_RANK")));
  every_dtype_is_summed();
  every_op_reduces();
  large_tensors_are_reduced();
  rows_are_gathered_by_rank();
  every_rank_can_be_root();
  rows_are_exchanged();
  rows_are_reduced_and_scattered();
  groups_complete_as_one();
  any_order_of_names_will_do();
  callbacks_run_without_a_waiting_thread();
  disagreement_fails_on_every_rank();
  process_sets_work_alone();
  ranks_with_less_data_join();
  for (int i = 0; i < 20; ++i) hvd::barrier();
  shutdown_of_one_ends_all();
}

}  // namespace scenario
