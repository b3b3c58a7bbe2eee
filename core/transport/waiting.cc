// SPDX-License-Identifier: Apache-2.0
#include "transport/waiting.h"

#include <sched.h>
#include <unistd.h>

namespace hvd {
namespace {

// The cores that this process may run on, which in a container is fewer than the machine has.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks_on_host(int ranks) {
  WaitPolicy policy;
  if (ranks > usable_cores()) policy.pauses = 20;
  return policy;
}

bool Backoff::yield() {
  const auto now = std::chrono::steady_clock::now();
  if (sleep_at_ == std::chrono::steady_clock::time_point{}) sleep_at_ = now + policy_.yield_for;
  if (now >= sleep_at_) return true;
  sched_yield();
  return false;
}

}  // namespace hvd
