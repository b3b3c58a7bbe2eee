// SPDX-License-Identifier: Apache-2.0
// Whether the ranks that this process works with are all still there, and when any of them last
// moved data. One per process and job, shared by all its transports; every wait looks at it, so
// that one loss ends every call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"

namespace hvd {

// Whether a rank that fails so cannot go on: no memory, or a bug.
inline bool is_broken(const Status& failure) {
  return failure.code() == StatusCode::kUnavailable || failure.code() == StatusCode::kInternal;
}
// How a failure of `rank` looks to the other ranks: a broken rank is lost to them.
Status seen_by_others(int rank, const Status& failure);

// The message of `failure` without the "rank N: " that peer_lost() puts before it. A message that
// carries the lost rank in a field of its own transports this text; the receiver calls peer_lost(),
// which adds the prefix again. Allocates nothing; the text is valid as long as `failure`.
std::string_view reason_without_rank(const Status& failure) noexcept;

class Health {
 public:
  // The first failure is kept, later ones are ignored. Safe from any thread. Who has got the reason
  // from status() may end the process: all listeners have heard it by then.
  void fail(const Status& reason) noexcept HVD_EXCLUDES(mutex_);
  // This rank leaves the job: what it still does fails with `reason`, which concerns nobody else.
  void leave(const Status& reason) noexcept HVD_EXCLUDES(mutex_);
  bool left() const { return left_.load(std::memory_order_relaxed); }

  // A transport of this process has moved data. Cheap enough for every chunk.
  void note_progress() {
    if (!moved_.load(std::memory_order_relaxed)) moved_.store(true, std::memory_order_relaxed);
  }
  // Whether one has since the last call.
  bool take_progress() { return moved_.exchange(false, std::memory_order_relaxed); }
  // When data were last moved on another rank, as far as this one has heard.
  std::chrono::steady_clock::time_point progress_elsewhere() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(elsewhere_.load(std::memory_order_relaxed)));
  }
  // One caller at a time.
  void set_progress_elsewhere(std::chrono::steady_clock::time_point when) {
    elsewhere_.store(when.time_since_epoch().count(), std::memory_order_relaxed);
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ok, or why it failed.
  Status status() const HVD_EXCLUDES(mutex_);
  // Waits for a failure; whether there is one.
  bool wait_for_failure(Deadline deadline) HVD_EXCLUDES(mutex_);

  // Hears of the failure while it exists: at once if there is one already and otherwise when it
  // happens, on the thread that calls fail(). What it calls must neither block nor call back.
  // Once the destructor has returned it is not being called any more. `health` outlives it.
  class Listener {
   public:
    using Hear = std::function<void(const Status& reason)>;
    Listener(Health& health, Hear hear);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Health& health_;
    uint64_t id_ = 0;
  };

 private:
  std::atomic<bool> failed_{false};
  std::atomic<bool> left_{false};
  std::atomic<bool> moved_{false};
  std::atomic<int64_t> elsewhere_{0};
  mutable Mutex mutex_;
  CondVar failure_;
  Status reason_ HVD_GUARDED_BY(mutex_);
  std::map<uint64_t, Listener::Hear> listeners_ HVD_GUARDED_BY(mutex_);  // in order of arrival
  uint64_t next_id_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
