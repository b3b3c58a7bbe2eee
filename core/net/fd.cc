// SPDX-License-Identifier: Apache-2.0
#include "net/fd.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace hvd {
namespace {

// One bit for each descriptor that an Fd owns. A bitmap, because the handler in a forked child must
// neither lock nor allocate. Descriptors above the last bit, which few systems allow, stay open in
// children.
constexpr int kBits = 64;
std::array<std::atomic<uint64_t>, (1 << 20) / kBits> owned;
std::atomic<size_t> words_used{0};

void mark(int fd, bool is_owned) {
  const auto word = static_cast<size_t>(fd / kBits);
  if (word >= owned.size()) return;
  const uint64_t bit = uint64_t{1} << (fd % kBits);
  if (!is_owned) {
    owned[word].fetch_and(~bit, std::memory_order_relaxed);
    return;
  }
  owned[word].fetch_or(bit, std::memory_order_relaxed);
  size_t used = words_used.load(std::memory_order_relaxed);
  while (used <= word && !words_used.compare_exchange_weak(used, word + 1)) {
  }
}

void close_all() {
  for (size_t word = 0; word < words_used.load(); ++word) {
    for (uint64_t bits = owned[word].exchange(0); bits != 0; bits &= bits - 1) {
      ::close(static_cast<int>(word) * kBits + std::countr_zero(bits));
    }
  }
}

const int kInstalled = pthread_atfork(nullptr, nullptr, close_all);

}  // namespace

int Fd::release() {
  (void)kInstalled;
  if (fd_ >= 0 && !fork_generation_.in_child()) mark(fd_, false);
  return std::exchange(fd_, -1);
}

void Fd::reset(int fd) {
  // In a child the number may belong to another file since close_all(): do not close it. On Linux a
  // close() that fails with EINTR has closed the descriptor: never repeat it.
  if (fd_ >= 0 && !fork_generation_.in_child()) {
    mark(fd_, false);
    ::close(fd_);
  }
  fd_ = fd;
  fork_generation_ = ForkGeneration();
  if (fd >= 0) mark(fd, true);
}

}  // namespace hvd
