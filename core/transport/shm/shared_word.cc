// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shared_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <climits>
#include <ctime>

namespace hvd {
namespace {

// A futex has 32 bits: the half with the sleeper bit. It cannot return to its old value within one
// sleep, since that would take 2^31 raises.
uint32_t* low_half(std::atomic<uint64_t>& word) {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<uint32_t*>(&word);
}

}  // namespace

void SharedWord::sleep(uint64_t seen, std::chrono::microseconds at_most) {
  // The bit is set before the kernel compares the word: a raise() in between changes the word, and
  // FUTEX_WAIT returns at once. If another thread sleeps already, the bit is set.
  uint64_t expected = seen << 1;
  const uint64_t marked = expected | 1;
  if (!word_.compare_exchange_strong(expected, marked, std::memory_order_acq_rel) &&
      expected != marked) {
    return;
  }
  const timespec limit{at_most.count() / 1'000'000, at_most.count() % 1'000'000 * 1000};
  syscall(SYS_futex, low_half(word_), FUTEX_WAIT, static_cast<uint32_t>(marked), &limit, nullptr,
          0);
}

void SharedWord::wake() {
  syscall(SYS_futex, low_half(word_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hvd
