// SPDX-License-Identifier: Apache-2.0
// Rings doorbells for sockets: the thread hvd-net, which runs the poller, sees that a socket of the
// control plane is ready and rings the doorbell of this rank. An engine that is awake reads its
// sockets itself, so a socket is watched only from arm() until it is ready once.
#pragma once

#include <cstdint>
#include <map>

#include "base/mutex.h"
#include "base/status.h"
#include "net/poller.h"
#include "transport/control/doorbell.h"

namespace hvd {

// on_event() belongs to the thread that runs the poller; the rest is safe from any thread.
class SocketWaker {
 public:
  // The poller must outlive it.
  explicit SocketWaker(Poller& poller) : poller_(poller) {}
  SocketWaker(const SocketWaker&) = delete;
  SocketWaker& operator=(const SocketWaker&) = delete;

  // Returns an id for the other calls. The socket and the doorbell must exist until remove().
  Result<uint64_t> add(int socket, Doorbell& doorbell) HVD_EXCLUDES(mutex_);
  // `events` as for the poller. One system call, or none if the same events are armed already.
  void arm(uint64_t id, uint32_t events) HVD_EXCLUDES(mutex_);
  // After it returns, the doorbell is not used any more.
  void remove(uint64_t id) HVD_EXCLUDES(mutex_);

  // Whether the event belongs to one of the sockets.
  bool on_event(const PollEvent& event) HVD_EXCLUDES(mutex_);

 private:
  static constexpr uint64_t kTokens = uint64_t{1} << 62;  // above the tokens of other poller users

  struct Watched {
    int socket;
    Doorbell* doorbell;
    uint32_t armed_for;
  };

  Poller& poller_;
  Mutex mutex_;
  std::map<uint64_t, Watched> watched_ HVD_GUARDED_BY(mutex_);  // by token
  uint64_t next_token_ HVD_GUARDED_BY(mutex_) = kTokens;
};

}  // namespace hvd
