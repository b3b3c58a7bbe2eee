// SPDX-License-Identifier: Apache-2.0
// Detects the death of a rank, and sends the reason of a failure to every rank.
//
// Rank r has connections to the ranks r ± 2^k: 2 log2(size) connections per rank, and at most
// log2(size) hops between any two ranks:
//
//   size 8, rank 0 opens to 1, 2, 4 (watch_targets) and accepts from 7, 6, 4 (watch_sources)
//
// How a loss is detected, from fast to slow:
//   - A connection ends without a goodbye message: its peer is lost.
//   - On one host the process itself is watched through a pidfd too, because its connections may
//     stay open in children that it forked.
//   - Every quarter of the heartbeat timeout each rank sends kAlive. A rank that was silent for the
//     whole timeout is frozen or unreachable, and is lost.
//   - TCP keepalive closes the connection of a host without power or network after 11 s.
//
// kAlive also contains how long ago any rank moved data. So a rank that waits learns whether the
// other ranks are busy (progress_limit.h).
//
// A failure is sent as one small message, which each rank passes on once. The message contains the
// rank that found the failure and the text. So all ranks report the same cause, and do not report a
// rank that ended because of the failure as the lost rank.
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

// The ranks that `rank` connects to.
std::vector<int> watch_targets(int rank, int size);
// The ranks that connect to `rank`.
std::vector<int> watch_sources(int rank, int size);

// on_event(), update(), beat() and next_beat() belong to the thread that runs the poller (hvd-net);
// the rest is safe from any thread. PeerWatch does not hold its mutex while it fails `health`,
// because `health` calls spread(), which locks that mutex.
class PeerWatch {
 public:
  // Listens to `health`. `health` and `poller` must outlive it.
  PeerWatch(int rank, int size, std::chrono::milliseconds heartbeat_timeout, Poller& poller,
            Health& health);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // Adds a connection. `name` is the peer's name in messages; `pid` is 0 if its process cannot be
  // watched. Fails if there is already a connection with this peer in this direction.
  Status add(int peer, bool outgoing, Channel channel, const std::string& name, int pid)
      HVD_EXCLUDES(mutex_);
  // Waits until all connections with watch_targets() and watch_sources() have been made.
  Status wait_complete(Deadline deadline) HVD_EXCLUDES(mutex_);
  // Sends a goodbye to all peers. From now on the peers do not report the closed connections of
  // this rank as a loss, and this rank does not report theirs. Later failures of this rank are not
  // sent to the peers.
  void say_goodbye() HVD_EXCLUDES(mutex_);

  // Whether the event belongs to the watch.
  bool on_event(const PollEvent& event) HVD_EXCLUDES(mutex_);
  // Registers connections that other threads have added with the poller. Call it before each wait.
  void update() HVD_EXCLUDES(mutex_);
  // If the next beat is due: sends kAlive to all peers and looks for silent peers. Call it after
  // all events of a wait have been handled, so that messages that have arrived count.
  void beat() HVD_EXCLUDES(mutex_);
  Deadline next_beat() HVD_EXCLUDES(mutex_);

 private:
  struct Edge;
  // Sends a failure of this rank, or one that it received, to all peers.
  void spread(const Status& reason) HVD_EXCLUDES(mutex_);
  void send_to(Edge& edge, const WatchMessage& message) HVD_REQUIRES(mutex_);
  // Reads the messages that have arrived. Returns a failure to report, or ok.
  Status read(Edge& edge) HVD_REQUIRES(mutex_);
  void close(Edge& edge) HVD_REQUIRES(mutex_);
  WatchMessage alive_message(Deadline::Clock::time_point now) const HVD_REQUIRES(mutex_);
  void note_progress_elsewhere(const WatchMessage& message) HVD_REQUIRES(mutex_);

  const int rank_;
  const int size_;
  const std::chrono::milliseconds heartbeat_timeout_;
  Poller& poller_;
  Health& health_;

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<Edge>> edges_ HVD_GUARDED_BY(mutex_);
  uint64_t next_token_ HVD_GUARDED_BY(mutex_);
  size_t missing_ HVD_GUARDED_BY(mutex_);  // connections that are still to be made
  bool failed_ HVD_GUARDED_BY(mutex_) = false;
  bool leaving_ HVD_GUARDED_BY(mutex_) = false;
  Deadline next_beat_ HVD_GUARDED_BY(mutex_);
  // When this rank (checked at each beat), or any other rank, last moved data.
  Deadline::Clock::time_point moved_here_ HVD_GUARDED_BY(mutex_);
  Deadline::Clock::time_point moved_elsewhere_ HVD_GUARDED_BY(mutex_);
  std::optional<WatchMessage> heard_ HVD_GUARDED_BY(mutex_);   // the failure that we received
  std::optional<WatchMessage> spread_ HVD_GUARDED_BY(mutex_);  // the failure that we send to peers
  // Last member: it may call spread() as soon as it is constructed.
  std::unique_ptr<Health::Listener> listener_;  // until say_goodbye()
};

}  // namespace hvd
