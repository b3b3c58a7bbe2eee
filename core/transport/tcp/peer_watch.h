// SPDX-License-Identifier: Apache-2.0
// Knows when a rank dies, and lets every rank know why the job has failed.
//
// Rank r is connected with the ranks r ± 2^k: few connections for each, and from any rank to any
// other in few steps. A rank that leaves says goodbye; a connection that ends without is a loss.
// On one host the process itself is watched too, because its connections may live on in children
// that it forked. Every quarter of the heartbeat timeout each says that it is alive: who has been
// silent for all of it is frozen, or cannot be reached, and is lost. With that each says how long
// ago any rank has moved data, so that a rank that waits knows whether others are busy. A failure,
// wherever it was found, goes from rank to rank as one small message, which each passes on once; so
// all name the same cause, and a rank that left because of the failure is not taken for the one
// that was lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/status.h"
#include "net/channel.h"
#include "net/poller.h"
#include "transport/health.h"
#include "transport/tcp/wire.h"

namespace hvd {

// The ranks that `rank` connects to; they also accept from `rank`'s mirror image.
std::vector<int> watch_targets(int rank, int size);
// The ranks that connect to `rank`.
std::vector<int> watch_sources(int rank, int size);

// on_event, update and beat belong to the thread that runs the poller; the rest may be called from
// any.
class PeerWatch {
 public:
  // Listens to `health`, which outlives it.
  PeerWatch(int rank, int size, std::chrono::milliseconds heartbeat_timeout, Poller& poller,
            Health& health);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // `name` is how messages call the peer; `pid` is 0 unless its process can be watched.
  // Fails when that rank is connected in this direction already.
  Status add(int peer, bool outgoing, Channel channel, const std::string& name, int pid)
      HVD_EXCLUDES(mutex_);
  // Waits until every connection of the pattern has been made.
  Status wait_complete(Deadline deadline) HVD_EXCLUDES(mutex_);
  // From now on our closed connections are no loss to the others, and theirs none to us; what fails
  // here later is not their concern.
  void say_goodbye() HVD_EXCLUDES(mutex_);

  bool on_event(const PollEvent& event) HVD_EXCLUDES(mutex_);
  // Tells the poller about what other threads have added; before each wait.
  void update() HVD_EXCLUDES(mutex_);
  // Says that we are alive and looks who else is, when it is time; after all events of a wait.
  void beat() HVD_EXCLUDES(mutex_);
  Deadline next_beat() HVD_EXCLUDES(mutex_);

 private:
  struct Edge;
  void spread(const Status& reason) HVD_EXCLUDES(mutex_);
  void send_to(Edge& edge, const WatchMessage& message) HVD_REQUIRES(mutex_);
  // Reads what has come. A failure to report, or ok.
  Status read(Edge& edge) HVD_REQUIRES(mutex_);
  void close(Edge& edge) HVD_REQUIRES(mutex_);
  WatchMessage alive_message(Deadline::Clock::time_point now) const HVD_REQUIRES(mutex_);
  void hear_of_progress(const WatchMessage& message) HVD_REQUIRES(mutex_);

  const int rank_;
  const int size_;
  const std::chrono::milliseconds heartbeat_timeout_;
  Poller& poller_;
  Health& health_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<Edge>> edges_ HVD_GUARDED_BY(mutex_);
  uint64_t next_token_ HVD_GUARDED_BY(mutex_);
  size_t missing_ HVD_GUARDED_BY(mutex_);
  bool failed_ HVD_GUARDED_BY(mutex_) = false;
  bool leaving_ HVD_GUARDED_BY(mutex_) = false;
  Deadline next_beat_ HVD_GUARDED_BY(mutex_);
  // When a rank last moved data: this one, seen at a beat, or any other.
  Deadline::Clock::time_point moved_here_ HVD_GUARDED_BY(mutex_);
  Deadline::Clock::time_point moved_elsewhere_ HVD_GUARDED_BY(mutex_);
  std::optional<WatchMessage> heard_ HVD_GUARDED_BY(mutex_);   // the failure as it came to us
  std::optional<WatchMessage> spread_ HVD_GUARDED_BY(mutex_);  // what all are told
  // Last: it calls spread() from the moment it is made.
  std::unique_ptr<Health::Listener> listener_;  // until say_goodbye()
};

}  // namespace hvd
