// SPDX-License-Identifier: Apache-2.0
// Whether all ranks of the job still run, and when any of them last moved data. There is one Health
// per process and job, and all transports of the process share it. Every wait checks it, so that
// the loss of one rank ends every call.
//
// How a failure travels:
//
//   detected by                            then                        reaches
//   Lifeline (a process of this host) ─┐                           ┌─> PeerWatch: 2 log2(n) ranks
//   PeerWatch (connection, pidfd,      ├─> Health::fail() calls  ──┼─> Arena: ranks of this host
//     heartbeat)                       │   every Listener, in      └─> doorbells: sleeping threads
//   Mesh (closed link, timeout)       ─┘   order of registration       of this process
//
// Each rank that receives the failure calls its own Health::fail(), which passes the failure on.
// fail() ignores all later failures, so each rank passes on one failure only, and the messages end.
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

// Whether a rank with this failure cannot continue, because it has no memory or a bug.
inline bool is_broken(const Status& failure) {
  return failure.code() == StatusCode::kUnavailable || failure.code() == StatusCode::kInternal;
}
// The status that the other ranks get for a failure of `rank`. For a broken rank it is kPeerLost.
Status seen_by_others(int rank, const Status& failure);

// The message of `failure` without the "rank N: " that peer_lost() puts before it. For messages
// that have a field for the lost rank: they contain this text, and the receiver calls peer_lost(),
// which adds the prefix again. Allocates nothing; the text is valid as long as `failure`.
std::string_view reason_without_rank(const Status& failure) noexcept;

// Safe from any thread, except where a comment states otherwise. It must outlive its listeners and
// every transport that uses it. A failure is final.
class Health {
 public:
  // Keeps the first failure and ignores later ones. When status() returns the reason, all listeners
  // have been called, so the thread may end the process.
  void fail(const Status& reason) noexcept HVD_EXCLUDES(mutex_);
  // This rank leaves the job cleanly: its later calls fail with `reason`. left() is set first, so
  // that listeners do not pass `reason` to other ranks.
  void leave(const Status& reason) noexcept HVD_EXCLUDES(mutex_);
  bool left() const { return left_.load(std::memory_order_relaxed); }

  // A transport of this process has moved data. Cheap enough to call for every chunk: it writes the
  // cache line only when the flag is clear.
  void note_progress() {
    if (!moved_.load(std::memory_order_relaxed)) moved_.store(true, std::memory_order_relaxed);
  }
  // Whether data were moved since the last call.
  bool take_progress() { return moved_.exchange(false, std::memory_order_relaxed); }
  // When another rank last moved data, according to the heartbeats received so far.
  std::chrono::steady_clock::time_point progress_elsewhere() const {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(elsewhere_.load(std::memory_order_relaxed)));
  }
  // One caller at a time: the thread hvd-net.
  void set_progress_elsewhere(std::chrono::steady_clock::time_point when) {
    elsewhere_.store(when.time_since_epoch().count(), std::memory_order_relaxed);
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ok, or the first failure.
  Status status() const HVD_EXCLUDES(mutex_);
  // Waits for a failure until the deadline; returns whether there is one.
  bool wait_for_failure(Deadline deadline) HVD_EXCLUDES(mutex_);

  // Calls `on_failure` with the failure: in the constructor if there is a failure already,
  // otherwise on the thread that calls fail(). The mutex of Health is held during the call, so
  // `on_failure` must neither block nor call Health. It is not called after the destructor has
  // returned. `health` must outlive the listener.
  class Listener {
   public:
    using Callback = std::function<void(const Status& reason)>;
    Listener(Health& health, Callback on_failure);
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
  // By id, which is the order of registration: the peer watch comes before meshes.
  std::map<uint64_t, Listener::Callback> listeners_ HVD_GUARDED_BY(mutex_);
  uint64_t next_id_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
