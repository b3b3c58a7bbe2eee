// The moment at which a wait gives up. Every wait in the project takes one, so that nothing
// hangs; it is passed down unchanged, so that a call of many waits still ends on time.
#pragma once

#include <algorithm>
#include <chrono>

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

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool expired() const { return !is_never() && Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }

  // Zero once expired; Clock::duration::max() when it never expires.
  Clock::duration remaining() const {
    if (is_never()) return Clock::duration::max();
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }

  // The time to pass to poll(2) and friends, at most `limit`; rounded up, so that a caller
  // who loops does not spin through the last millisecond.
  int poll_milliseconds(std::chrono::milliseconds limit = std::chrono::hours(1)) const {
    if (is_never()) return static_cast<int>(limit.count());
    return static_cast<int>(
        std::min(std::chrono::ceil<std::chrono::milliseconds>(remaining()), limit).count());
  }

  friend Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace hvd
