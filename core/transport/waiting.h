// SPDX-License-Identifier: Apache-2.0
// How a rank waits for another: spin, then yield, then sleep.
//
// Measured on two cores: a wake-up across cores costs 20 to 45 us whatever the primitive, so
// sleeping early makes small operations 100 times slower; spinning without yielding costs 4 ms per
// operation once ranks outnumber cores, because the one that is waited for does not get to run;
// yielding early gives whole time slices away to unrelated processes. Hence two policies.
#pragma once

#include <chrono>

namespace hvd {

struct WaitPolicy {
  int pauses = 500;                          // polls before the first yield
  std::chrono::microseconds yield_for{200};  // then yields, then sleeps

  // For a host with that many ranks of the job: spins longer when each rank can have a core.
  static WaitPolicy for_ranks_on_host(int ranks);
};

// No sleep lasts longer than this before the sleeper looks again whether a peer has died.
inline constexpr std::chrono::milliseconds kLongestSleep{5};

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// One wait. Call pause() between two looks at the condition; once it returns true the caller
// should sleep in the kernel, for at most kLongestSleep, before the next look.
class Backoff {
 public:
  explicit Backoff(const WaitPolicy& policy) : policy_(policy) {}

  bool pause() {
    if (polls_ < policy_.pauses) {
      ++polls_;
      cpu_pause();
      return false;
    }
    return yield();
  }

  // What was waited for has come: the next wait begins.
  void restart() {
    polls_ = 0;
    sleep_at_ = {};
  }

 private:
  bool yield();

  const WaitPolicy& policy_;
  int polls_ = 0;
  std::chrono::steady_clock::time_point sleep_at_{};
};

}  // namespace hvd
