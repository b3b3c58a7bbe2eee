// SPDX-License-Identifier: Apache-2.0
#include "transport/control/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hvd {
namespace {

constexpr uint32_t kListenerMask = 3;
constexpr uint32_t kOneRing = 4;  // the count starts above the listener's two bits

// The engine thread and a waiting thread sleep on the same word. Each has its own futex bit, so
// that a ring wakes one without the other.
uint32_t bit_of(Doorbell::Listener listener) {
  return listener == Doorbell::Listener::kWaitingThread ? 2u : 1u;
}

uint32_t* address_of(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }

}  // namespace

void Doorbell::ring(Urgency urgency) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto least = static_cast<uint32_t>(urgency == Urgency::kUrgent ? Listener::kIdleEngineThread
                                                                       : Listener::kEngineThread);
  uint32_t word = word_.load(std::memory_order_relaxed);
  do {
    if ((word & kListenerMask) < least) return;
  } while (!word_.compare_exchange_weak(word, (word & ~kListenerMask) + kOneRing,
                                        std::memory_order_seq_cst));
  syscall(SYS_futex, address_of(word_), FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr,
          bit_of(static_cast<Listener>(word & kListenerMask)));
}

void Doorbell::listen(Listener listener) {
  uint32_t word = word_.load(std::memory_order_relaxed);
  while (!word_.compare_exchange_weak(
      word, (word & ~kListenerMask) | static_cast<uint32_t>(listener), std::memory_order_seq_cst)) {
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Doorbell::Listener Doorbell::listener() const {
  return static_cast<Listener>(word_.load(std::memory_order_seq_cst) & kListenerMask);
}

void Doorbell::sleep(Listener listener, std::chrono::microseconds at_most) {
  const uint32_t now = ticket();
  if ((now & kListenerMask) == static_cast<uint32_t>(listener)) sleep_since(now, listener, at_most);
}

void Doorbell::sleep_since(uint32_t ticket, Listener listener, std::chrono::microseconds at_most) {
  // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock.
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const int64_t nanoseconds = until.tv_nsec + at_most.count() % 1'000'000 * 1000;
  until.tv_sec += at_most.count() / 1'000'000 + nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  syscall(SYS_futex, address_of(word_), FUTEX_WAIT_BITSET, ticket, &until, nullptr,
          bit_of(listener));
}

}  // namespace hvd
