// SPDX-License-Identifier: Apache-2.0
// The moment at which a wait gives up. Every wait in the project takes one, so that nothing
// hangs; it is passed down unchanged, so that a call of many waits still ends on time. On a thread
// that was interrupted (interrupt.h) every deadline has passed.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/interrupt.h"

namespace hvd {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // For waits that a peer's death ends, and for tests that cannot wait.
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline at(Clock::time_point when) { return Deadline(when); }
  template <typename Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> wait) {
    const auto now = Clock::now();
    if (wait >= Clock::time_point::max() - now) return never();
    return Deadline(now + std::chrono::duration_cast<Clock::duration>(wait));
  }

  // A limit on the time without progress. As it is, it passes `patience` from now; a wait that can
  // see progress calls renewed() for it.
  template <typename Rep, typename Period>
  static Deadline without_progress_for(std::chrono::duration<Rep, Period> patience) {
    Deadline made = after(patience);
    made.patience_ = std::chrono::duration_cast<Clock::duration>(patience);
    return made;
  }
  // The same limit, counted from `progress`. A deadline of any other kind stays as it is.
  Deadline renewed(Clock::time_point progress = Clock::now()) const {
    Deadline later = *this;
    if (patience_ > Clock::duration::zero() && !is_never()) later.when_ = progress + patience_;
    return later;
  }
  // Zero for a deadline of any other kind.
  Clock::duration patience() const { return patience_; }

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool expired() const { return (!is_never() && Clock::now() >= when_) || Interrupt::raised(); }
  Clock::time_point when() const { return when_; }

  // Zero once expired; Clock::duration::max() when it never expires.
  Clock::duration remaining() const {
    if (Interrupt::raised()) return Clock::duration::zero();
    if (is_never()) return Clock::duration::max();
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }

  // The time to pass to poll(2) and friends, at most `limit`; rounded up, so that a caller
  // who loops does not spin through the last millisecond. The wait is over when expired() says so,
  // not when this time has passed.
  int poll_milliseconds(std::chrono::milliseconds limit = std::chrono::hours(1)) const {
    if (Interrupt::possible()) limit = std::min(limit, Interrupt::kInterval);
    if (is_never()) return Interrupt::raised() ? 0 : static_cast<int>(limit.count());
    return static_cast<int>(
        std::min(std::chrono::ceil<std::chrono::milliseconds>(remaining()), limit).count());
  }

  friend Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
  Clock::duration patience_{0};
};

}  // namespace hvd
