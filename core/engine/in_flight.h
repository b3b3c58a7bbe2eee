// SPDX-License-Identifier: Apache-2.0
// The operations that callers have submitted and that are not done, and the queue from the callers
// to the engine. A submission takes no lock except its mutex.
//
// Callers may call add() on any thread. The thread that runs the engine calls the other functions,
// except where noted.
//
// Operations without a name get a number here, counted separately for each label
// ("allreduce.noname"): 0, 1, 2 and so on in the order of submission, and 0 again after a fixed
// count. So the number depends only on the order in which this rank submits operations of this
// label. That order has to be the same on all ranks. The number does not depend on the time at
// which operations are done, because that time differs between ranks. An operation is held here
// while an earlier operation uses its name. This cannot deadlock ranks that submit in the same
// order: the later operation needs all ranks, and each rank submits the earlier operation first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "engine/operation.h"
#include "engine/response_cache.h"
#include "engine/stall/rank_report.h"

namespace hvd {

// A name that a task uses or has used. The task points to it, which saves a second lookup.
struct InFlightName {
  TensorTask* task = nullptr;  // null when it is not in use
  std::chrono::nanoseconds since{0};
  // Only for the thread that runs the engine: the ResponseId that the response cache had for this
  // name when it was last announced.
  ResponseId number = kNoResponse;
};

// The count of numbers for the unnamed operations of one label, and so the most of them that can be
// negotiated at the same time. The response cache answers an unnamed tensor only if its number
// always belongs to the same tensor. For a program that submits k unnamed tensors in every step
// this holds if k divides the count. So the count has many divisors: 840 = 2 * 2 * 2 * 3 * 5 * 7.
inline constexpr uint32_t kMostNumbers = 840;
// The count for a response cache of this capacity: half of the capacity, so that the other half is
// left to tensors with names, but at least 60 and at most kMostNumbers. Without a cache (0):
// kMostNumbers.
uint32_t numbers_for(size_t cache_capacity);

class InFlight {
 public:
  // `numbers` has to be the same on all ranks of a set.
  explicit InFlight(uint32_t numbers = kMostNumbers) : numbers_(numbers) {}

  // Adds all tensors of the operation or none, and holds a ref of it until it is removed. Gives a
  // name to an operation without one. Fails with kInvalidArgument when a name is in use, and after
  // close() with the reason that close() got. After an exception the operation is not in flight.
  Status add(Operation& operation) HVD_EXCLUDES(mutex_);

  // Whether operations were added since take_queued(). Any thread; costs one atomic load.
  bool has_queued() const { return queued_.load(std::memory_order_acquire); }
  // Replaces the contents of `queued`.
  void take_queued(std::vector<Operation*>& queued) HVD_EXCLUDES(mutex_);
  // Any thread.
  size_t queued() const HVD_EXCLUDES(mutex_);

  // The tasks are done: frees their names and skips null tasks. An operation whose last task is
  // done is appended to `finished`. An exception leaves everything unchanged.
  void remove(std::span<TensorTask* const> tasks, std::vector<Operation::Ref>& finished)
      HVD_EXCLUDES(mutex_);
  // Queues held operations whose name is free now. To be called after remove(), once the operations
  // that it returned are finished.
  void enqueue_held() HVD_EXCLUDES(mutex_);
  // Restarts the waiting time of joins, for stall reports, because the other ranks make progress.
  void renew_joins() HVD_EXCLUDES(mutex_);
  // As remove(), for all joins. Numbers start at 0 again: while this rank had joined, other ranks
  // may have counted operations that this rank did not submit.
  void remove_joins(std::vector<Operation::Ref>& finished) HVD_EXCLUDES(mutex_);

  // Accepts no operation from now on. Calls `each` with every operation that was in flight, after
  // the lock has been released. Allocates nothing, because the reason may be that no memory is
  // left.
  template <typename Each>
  void close(const Status& reason, Each each) HVD_EXCLUDES(mutex_) {
    for (Operation* next = unlink_all(reason); next != nullptr;) {
      const Operation::Ref operation(std::exchange(next, next->next_closed));
      each(*operation);
    }
  }

  // What this rank has been doing, for a stall report: all fields except rank, host and call.
  RankReport describe() const HVD_EXCLUDES(mutex_);
  // How long the oldest operation has waited; 0 without any. Exact to a few milliseconds.
  std::chrono::duration<double> oldest() const HVD_EXCLUDES(mutex_);

  // Operations that are not done. Any thread.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  using Time = std::chrono::nanoseconds;  // of CLOCK_MONOTONIC_COARSE, as cheap as a variable
  static Time now();

  // The numbers of one label.
  struct Sequence {
    uint64_t next = 0;
    // Operations that have a number which an earlier operation still uses; the oldest first.
    std::deque<Operation::Ref> held;
  };

  // Takes the names of all tasks, makes room in queue_ and returns null; or takes none and returns
  // the first task whose name is in use.
  const TensorTask* take_names(Operation& operation, Time since) HVD_REQUIRES(mutex_);
  // Appends the next number to the names of the tasks; does not advance the sequence.
  Sequence& number(Operation& operation) HVD_REQUIRES(mutex_);
  // Called after take_names(). The names of the operation hold `ref` from then on; for a join,
  // joins_ holds it.
  void enqueue(Operation::Ref ref) HVD_REQUIRES(mutex_);
  void forget_idle_names() HVD_REQUIRES(mutex_);
  // The operations in flight, linked by next_closed, each with the ref that this object held.
  Operation* unlink_all(const Status& reason) noexcept HVD_EXCLUDES(mutex_);

  const uint32_t numbers_;
  std::atomic<bool> queued_{false};
  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  std::vector<Operation*> queue_ HVD_GUARDED_BY(mutex_);
  // A name that no task uses stays here, because most names are used again. Finding a name costs
  // 0.1 us less than making it.
  std::unordered_map<std::string, InFlightName> names_ HVD_GUARDED_BY(mutex_);
  size_t names_in_use_ HVD_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Sequence> sequences_ HVD_GUARDED_BY(mutex_);  // by label
  std::atomic<size_t> held_{0};                 // operations in `held` of all sequences
  uint32_t groups_ HVD_GUARDED_BY(mutex_) = 0;  // operations of several tensors so far
  struct Join {
    Operation::Ref operation;
    Time since;
  };
  std::vector<Join> joins_ HVD_GUARDED_BY(mutex_);
  Status closed_ HVD_GUARDED_BY(mutex_);
  const std::string* last_submitted_ HVD_GUARDED_BY(mutex_) =
      nullptr;  // a key of names_, or "join"
  std::string last_completed_ HVD_GUARDED_BY(mutex_);
  Time last_submission_ HVD_GUARDED_BY(mutex_) = now();
};

}  // namespace hvd
