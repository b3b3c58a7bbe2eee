// SPDX-License-Identifier: Apache-2.0
// The moment at which a wait gives up. Every wait in the project takes a Deadline, so that no call
// hangs. Callers pass it down unchanged, so that a call that consists of many waits still ends on
// time. On a thread that was interrupted (interrupt.h) every deadline counts as expired.
//
// A Deadline is a value of 16 bytes: copies are independent, and any thread may use them. There are
// two kinds: a fixed moment (at, after), and a limit on the time without progress
// (without_progress_for), which waits move forward with renewed().
#pragma once

#include <algorithm>
#include <chrono>

#include "base/interrupt.h"

namespace hvd {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // For waits that another event ends (such as the loss of the peer), and for tests.
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline at(Clock::time_point when) { return Deadline(when); }
  template <typename Rep, typename Period>
  static Deadline after(std::chrono::duration<Rep, Period> wait) {
    const auto now = Clock::now();
    if (wait >= Clock::time_point::max() - now) return never();
    return Deadline(now + std::chrono::duration_cast<Clock::duration>(wait));
  }

  // A limit on the time without progress. The returned deadline expires `patience` from now; a wait
  // that observes progress calls renewed() to get a later one.
  template <typename Rep, typename Period>
  static Deadline without_progress_for(std::chrono::duration<Rep, Period> patience) {
    Deadline made = after(patience);
    made.patience_ = std::chrono::duration_cast<Clock::duration>(patience);
    return made;
  }
  // The same limit, counted from `progress`. A deadline that is a fixed moment is returned
  // unchanged.
  Deadline renewed(Clock::time_point progress = Clock::now()) const {
    Deadline later = *this;
    if (patience_ > Clock::duration::zero() && !is_never()) later.when_ = progress + patience_;
    return later;
  }
  // Zero for a deadline that is a fixed moment.
  Clock::duration patience() const { return patience_; }

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool expired() const { return (!is_never() && Clock::now() >= when_) || Interrupt::raised(); }
  Clock::time_point when() const { return when_; }

  // Zero once expired; Clock::duration::max() if it never expires.
  Clock::duration remaining() const {
    if (Interrupt::raised()) return Clock::duration::zero();
    if (is_never()) return Clock::duration::max();
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }

  // The timeout for poll(2) and epoll_wait(2), in milliseconds, at most `limit`. It is rounded up,
  // so that a caller that loops does not spin through the last millisecond. The caller must then
  // test expired(): this time may be shorter than the deadline, because of `limit` or of
  // Interrupt::kInterval.
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
