#include "transport/control/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hvd {
namespace {

// Keeper and helper sleep on the same word and are woken one without the other.
uint32_t bit_of(Bell::Listener listener) { return listener == Bell::Listener::kHelper ? 2u : 1u; }

uint32_t* address_of(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }

}  // namespace

void Bell::ring(Urgency urgency) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto least = static_cast<uint32_t>(urgency == Urgency::kUrgent ? Listener::kIdleKeeper
                                                                       : Listener::kKeeper);
  if (word_.load(std::memory_order_relaxed) < least) return;
  const uint32_t listener = word_.exchange(0, std::memory_order_acq_rel);
  if (listener == 0) return;  // somebody else was quicker
  syscall(SYS_futex, address_of(word_), FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr,
          bit_of(static_cast<Listener>(listener)));
}

void Bell::listen(Listener listener) {
  word_.store(static_cast<uint32_t>(listener), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Bell::sleep(Listener listener, std::chrono::microseconds at_most) {
  // FUTEX_WAIT_BITSET takes a point in time.
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const int64_t nanoseconds = until.tv_nsec + at_most.count() % 1'000'000 * 1000;
  until.tv_sec += at_most.count() / 1'000'000 + nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  syscall(SYS_futex, address_of(word_), FUTEX_WAIT_BITSET, static_cast<uint32_t>(listener), &until,
          nullptr, bit_of(listener));
}

}  // namespace hvd
