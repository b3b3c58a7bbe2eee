// SPDX-License-Identifier: Apache-2.0
// How a rank waits for another rank: spin, then yield, then sleep.
//
// Measured on two cores: a wake-up across cores costs 20 to 45 us with any primitive, so sleeping
// early makes small operations 100 times slower. Spinning without yielding costs 4 ms per operation
// when there are more ranks than cores, because the awaited rank gets no core. Yielding early gives
// whole time slices to unrelated processes. So there are two policies.
#pragma once

#include <chrono>

namespace hvd {

struct WaitPolicy {
  int pauses = 500;                          // polls before the first yield
  std::chrono::microseconds yield_for{200};  // how long it yields before it sleeps

  // For a host with this many ranks of the job: spins longer if each rank can have a core.
  static WaitPolicy for_ranks_on_host(int ranks);
};

// A sleeping thread checks after at most this time whether a peer has died.
inline constexpr std::chrono::milliseconds kLongestSleep{5};

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// One wait of one thread. Call pause() between two checks of the condition. Once it returns true
// the caller should sleep in the kernel, for at most kLongestSleep, before the next check. `policy`
// must outlive it.
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

  // The condition became true; the next wait starts with spinning again.
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
