// SPDX-License-Identifier: Apache-2.0
// A way for the caller to end the waits of its own thread early, as Ctrl-C does.
//
// While an Interrupt exists, every Deadline of the thread that made it counts as expired once the
// question was answered with true, and no wait of that thread sleeps for longer than kInterval
// without asking. A wait that ends so fails with kTimeout, as it does when its time is over.
// Other threads are not affected: an operation of the job must not fail because the thread that
// works on it was interrupted, so a thread that may run an engine in use has no Interrupt.
#pragma once

#include <chrono>
#include <utility>

namespace hvd {

class Interrupt {
 public:
  using Clock = std::chrono::steady_clock;
  // Python has to take its global lock to answer: twenty times a second costs nothing.
  static constexpr std::chrono::milliseconds kInterval{50};
  // Non-zero: end the waits.
  using Ask = int (*)(void* context);

  // A null `ask` never interrupts.
  Interrupt(Ask ask, void* context)
      : ask_(ask),
        context_(context),
        outer_(std::exchange(current, ask == nullptr ? current : this)) {}
  ~Interrupt() { current = outer_; }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether the answer has been yes; does not ask.
  bool was_raised() const { return raised_; }

  // Of this thread. ------------------------------------------------------------------------------

  static bool possible() { return current != nullptr; }
  // Asks, if the last answer is older than kInterval. The caller holds no lock that another thread
  // may wait for while the question is answered.
  static bool raised() { return current != nullptr && current->look(); }
  static bool raised_before() { return current != nullptr && current->raised_; }

 private:
  bool look() {
    if (raised_) return true;
    const auto now = Clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    return raised_ = ask_(context_) != 0;
  }

  const Ask ask_;
  void* const context_;
  Interrupt* const outer_;
  Clock::time_point next_ = Clock::time_point::min();
  bool raised_ = false;

  static inline constinit thread_local Interrupt* current = nullptr;
};

}  // namespace hvd
