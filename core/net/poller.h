// SPDX-License-Identifier: Apache-2.0
// Waits for many descriptors at once, level-triggered, over epoll.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"

namespace hvd {

inline constexpr uint32_t kReadable = 1;
inline constexpr uint32_t kWritable = 2;

// A hang-up or an error of the descriptor shows as readable and writable, so that whoever reads
// or writes next learns what happened.
struct PollEvent {
  uint64_t token;
  uint32_t events;
};

// One thread adds, removes and waits; any thread wakes it.
class Poller {
 public:
  static Result<std::unique_ptr<Poller>> create();

  // `token` comes back with each event; it is not ~0. A descriptor without any wanted event still
  // reports a hang-up, again and again: remove it instead.
  Status add(int fd, uint32_t events, uint64_t token);
  Status modify(int fd, uint32_t events, uint64_t token);

  // For a descriptor that other threads than the waiting one arm: it is reported once, and then
  // not again until it is armed again; a hang-up may be the first report even before that. Both
  // are safe from any thread.
  Status add_unarmed(int fd, uint64_t token);
  Status arm(int fd, uint32_t events, uint64_t token);

  // Before the descriptor is closed; from any thread if it was added unarmed. Events of this
  // descriptor that an earlier wait() returned remain in that vector: never reuse a token for
  // something else.
  void remove(int fd);

  // Fills `events` with what is ready; leaves it empty when woken or when the deadline passed.
  Status wait(std::vector<PollEvent>& events, Deadline deadline);

  // Makes the wait in progress, or else the next one, return at once.
  void wake();

 private:
  Poller(Fd epoll, Fd event) : epoll_(std::move(epoll)), event_(std::move(event)) {}
  const Fd epoll_;
  const Fd event_;
};

}  // namespace hvd
