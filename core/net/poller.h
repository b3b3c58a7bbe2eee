// SPDX-License-Identifier: Apache-2.0
// Waits for many descriptors at once, level-triggered, by epoll. Does not own the descriptors.
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

// A hang-up or an error of the descriptor is reported as readable and writable, so that the next
// read or write returns the reason.
struct PollEvent {
  uint64_t token;
  uint32_t events;
};

// One thread adds, modifies, removes and waits. Any thread may call wake(), add_unarmed() and
// arm().
class Poller {
 public:
  static Result<std::unique_ptr<Poller>> create();

  // `token` is returned with each event; ~0 is reserved. A descriptor with `events` 0 still reports
  // a hang-up, at every wait(): remove it instead.
  Status add(int fd, uint32_t events, uint64_t token);
  Status modify(int fd, uint32_t events, uint64_t token);

  // For a descriptor that threads other than the waiting one arm. It is reported once, and then not
  // until it is armed again (EPOLLONESHOT). A hang-up may be reported before it is armed.
  Status add_unarmed(int fd, uint64_t token);
  Status arm(int fd, uint32_t events, uint64_t token);

  // Call it before the descriptor is closed; from any thread if it was added unarmed. Events that
  // an earlier wait() returned for this descriptor remain in that vector: never reuse a token for
  // another object.
  void remove(int fd);

  // Fills `events` with the descriptors that are ready. Leaves it empty if woken, or at the
  // deadline.
  Status wait(std::vector<PollEvent>& events, Deadline deadline);

  // Makes the wait in progress return at once, or the next one if none is in progress.
  void wake();

 private:
  Poller(Fd epoll, Fd event) : epoll_(std::move(epoll)), event_(std::move(event)) {}
  const Fd epoll_;
  const Fd event_;  // an eventfd, for wake()
};

}  // namespace hvd
