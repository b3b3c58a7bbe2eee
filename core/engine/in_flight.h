// The operations that callers have submitted and that are not done, and the one lock on the way
// from a caller to the engine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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

class InFlight {
 public:
  // All of its tensors or none, and takes a share of it until it is removed: fails with
  // kInvalidArgument when a name is in use, and with the reason given to close() after that.
  Status add(Operation& operation) HVD_EXCLUDES(mutex_);

  // What has come since the last call; cheap to ask for in vain.
  bool has_queued() const { return queued_.load(std::memory_order_acquire); }
  // In place of what `queued` held.
  void take_queued(std::vector<Operation*>& queued) HVD_EXCLUDES(mutex_);
  size_t queued() const HVD_EXCLUDES(mutex_);

  // Their names may be used again. Appends the operations of which nothing is left.
  void remove(std::span<TensorTask* const> tasks, std::vector<Operation::Share>& finished)
      HVD_EXCLUDES(mutex_);
  // The same for all joins.
  void remove_joins(std::vector<Operation::Share>& finished) HVD_EXCLUDES(mutex_);

  // No operation is accepted from now on. Returns those that were in flight.
  std::vector<Operation::Share> close(const Status& reason) HVD_EXCLUDES(mutex_);

  // What this rank has been doing, for the others to read: all but its place and its call.
  RankReport describe() const HVD_EXCLUDES(mutex_);
  // How long the oldest operation has waited; 0 without any. Exact to some milliseconds.
  std::chrono::duration<double> oldest() const HVD_EXCLUDES(mutex_);

  // Operations that are not done.
  size_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  using Time = std::chrono::nanoseconds;  // of a clock that costs no more to read than a variable
  static Time now();

  void forget_idle_names() HVD_REQUIRES(mutex_);

  std::atomic<bool> queued_{false};
  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  std::vector<Operation*> queue_ HVD_GUARDED_BY(mutex_);
  // A name stays when it is not in use, because most come again: finding it costs a tenth of a
  // microsecond less than making it.
  std::unordered_map<std::string, InFlightName> names_ HVD_GUARDED_BY(mutex_);
  size_t names_in_use_ HVD_GUARDED_BY(mutex_) = 0;
  uint32_t groups_ HVD_GUARDED_BY(mutex_) = 0;  // operations of several tensors so far
  std::vector<Operation::Share> joins_ HVD_GUARDED_BY(mutex_);
  Status closed_ HVD_GUARDED_BY(mutex_);
  const std::string* last_submitted_ HVD_GUARDED_BY(mutex_) = nullptr;  // lies in names_, mostly
  std::string last_completed_ HVD_GUARDED_BY(mutex_);
  Time last_submission_ HVD_GUARDED_BY(mutex_) = now();
};

}  // namespace hvd
