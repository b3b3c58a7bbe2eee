// SPDX-License-Identifier: Apache-2.0
// Lets a caller end the waits of its own thread early, for example after Ctrl-C.
//
// While an Interrupt exists, the waits of the thread that constructed it call the function `ask` at
// least every kInterval. Once `ask` has returned non-zero, every Deadline of that thread counts as
// expired, and a wait fails with kTimeout as it does when its time is over.
//
// Other threads are not affected. A thread that may run the engine has no Interrupt: an operation
// of the job must not fail because the thread that works on it was interrupted.
//
// An Interrupt lives on the stack of its thread and is destroyed there. Interrupts nest: the
// innermost one is asked. `context` must outlive it.
#pragma once

#include <chrono>
#include <utility>

namespace hvd {

class Interrupt {
 public:
  using Clock = std::chrono::steady_clock;
  // Python has to take its global lock to answer. At 20 times a second the cost is not measurable.
  static constexpr std::chrono::milliseconds kInterval{50};
  // Returns non-zero to end the waits.
  using Ask = int (*)(void* context);

  // With a null `ask` this object has no effect.
  Interrupt(Ask ask, void* context)
      : ask_(ask),
        context_(context),
        outer_(std::exchange(current, ask == nullptr ? current : this)) {}
  ~Interrupt() { current = outer_; }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether `ask` has returned non-zero; does not call it.
  bool was_raised() const { return raised_; }

  // Of the calling thread.
  // ------------------------------------------------------------------------------

  static bool possible() { return current != nullptr; }
  // Calls `ask` if its last answer is older than kInterval. The caller must hold no lock that
  // another thread may wait for: `ask` may block, for example on Python's global lock.
  static bool raised() { return current != nullptr && current->look(); }
  // As raised(), without calling `ask`.
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
