// SPDX-License-Identifier: Apache-2.0
// The operations that callers have submitted and that are not done, and the one lock on the way
// from a caller to the engine.
//
// Operations without a name get a number here, those of each label ("allreduce.noname") their own:
// 0, 1, 2 and so on in the order of submission, and 0 again after a fixed count. So the number
// depends on nothing but the order in which this rank submits operations of this label, which has
// to be the same on all ranks; when operations are done, which differs between ranks, does not
// matter. An operation whose name is in use by an earlier one waits here until that is done. Ranks
// that submit in the same order cannot deadlock by that: the later operation needs all ranks, and
// each of them submits the earlier one first.
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

// A name that is or was in use. Tasks hold it so that nobody looks it up twice.
struct InFlightName {
  TensorTask* task = nullptr;  // null when it is not in use
  std::chrono::nanoseconds since{0};
  // Of the thread that runs the engine: where the cache of responses had the name last time.
  ResponseId number = kNoResponse;
};

// How many numbers operations of one label have; as many can be negotiated at a time. A program
// that submits k tensors without names in every step is answered from the cache of responses if a
// number always comes with the same tensor, hence if k divides this: 840 = 2 * 2 * 2 * 3 * 5 * 7.
inline constexpr uint32_t kMostNumbers = 840;
// Fewer where the cache of responses is small: half of it is left to tensors with names.
uint32_t numbers_for(size_t cache_capacity);

class InFlight {
 public:
  // `numbers` is the same on all ranks of a set.
  explicit InFlight(uint32_t numbers = kMostNumbers) : numbers_(numbers) {}

  // All of its tensors or none, and takes a ref of it until it is removed: fails with
  // kInvalidArgument when a name is in use, and with the reason given to close() after that.
  // Operations without a name get theirs. After an exception it is not in flight either.
  Status add(Operation& operation) HVD_EXCLUDES(mutex_);

  // What has come since the last call; cheap to ask for in vain.
  bool has_queued() const { return queued_.load(std::memory_order_acquire); }
  // In place of what `queued` held.
  void take_queued(std::vector<Operation*>& queued) HVD_EXCLUDES(mutex_);
  size_t queued() const HVD_EXCLUDES(mutex_);

  // Their names may be used again. Appends the operations of which nothing is left. An exception
  // changes nothing.
  void remove(std::span<TensorTask* const> tasks, std::vector<Operation::Ref>& finished)
      HVD_EXCLUDES(mutex_);
  // After remove(), and after the operations that this gave back are finished: queues those that
  // waited for a number which is free now.
  void enqueue_held() HVD_EXCLUDES(mutex_);
  // Others are at work: joins have waited since now.
  void renew_joins() HVD_EXCLUDES(mutex_);
  // As remove(), for all joins. Numbers begin at 0 again: while this rank had joined, others may
  // have counted operations that it knows nothing of.
  void remove_joins(std::vector<Operation::Ref>& finished) HVD_EXCLUDES(mutex_);

  // No operation is accepted from now on. Calls `each` with every operation that was in flight,
  // after the lock has been released. Allocates nothing: the want of memory may be the reason.
  template <typename Each>
  void close(const Status& reason, Each each) HVD_EXCLUDES(mutex_) {
    for (Operation* next = unlink_all(reason); next != nullptr;) {
      const Operation::Ref operation(std::exchange(next, next->next_closed));
      each(*operation);
    }
  }

  // What this rank has been doing, for the others to read: all but its place and its call.
  RankReport describe() const HVD_EXCLUDES(mutex_);
  // How long the oldest operation has waited; 0 without any. Exact to some milliseconds.
  std::chrono::duration<double> oldest() const HVD_EXCLUDES(mutex_);

  // Operations that are not done.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  using Time = std::chrono::nanoseconds;  // of a clock that costs no more to read than a variable
  static Time now();

  // Of one label.
  struct Sequence {
    uint64_t next = 0;
    // Have their numbers, which are in use; the oldest first.
    std::deque<Operation::Ref> held;
  };

  // Takes the names of all tasks and makes room in queue_, or takes none and returns the first task
  // whose name is in use.
  const TensorTask* take_names(Operation& operation, Time since) HVD_REQUIRES(mutex_);
  // Names the tasks, but does not count yet.
  Sequence& number(Operation& operation) HVD_REQUIRES(mutex_);
  // After take_names(). `ref` is that of the names, or of joins_.
  void enqueue(Operation::Ref ref) HVD_REQUIRES(mutex_);
  void forget_idle_names() HVD_REQUIRES(mutex_);
  // The operations in flight as a list by next_closed, each with the ref that was held of it.
  Operation* unlink_all(const Status& reason) noexcept HVD_EXCLUDES(mutex_);

  const uint32_t numbers_;
  std::atomic<bool> queued_{false};
  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  std::vector<Operation*> queue_ HVD_GUARDED_BY(mutex_);
  // A name stays when it is not in use, because most come again: finding it costs a tenth of a
  // microsecond less than making it.
  std::unordered_map<std::string, InFlightName> names_ HVD_GUARDED_BY(mutex_);
  size_t names_in_use_ HVD_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Sequence> sequences_ HVD_GUARDED_BY(mutex_);  // by label
  std::atomic<size_t> held_{0};                                                 // in all of them
  uint32_t groups_ HVD_GUARDED_BY(mutex_) = 0;  // operations of several tensors so far
  struct Join {
    Operation::Ref operation;
    Time since;
  };
  std::vector<Join> joins_ HVD_GUARDED_BY(mutex_);
  Status closed_ HVD_GUARDED_BY(mutex_);
  const std::string* last_submitted_ HVD_GUARDED_BY(mutex_) = nullptr;  // lies in names_, mostly
  std::string last_completed_ HVD_GUARDED_BY(mutex_);
  Time last_submission_ HVD_GUARDED_BY(mutex_) = now();
};

}  // namespace hvd
