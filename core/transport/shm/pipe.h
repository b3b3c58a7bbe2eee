// SPDX-License-Identifier: Apache-2.0
// A ring buffer in shared memory from one rank to another rank of the same host. Its two ends are
// links.
//
//   | written | read | ring of `capacity` bytes |     byte n of the stream is at n % capacity
//
// Only the writer changes `written`, only the reader changes `read`, each on a cache line of its
// own. Both count bytes without end; the ring is full when they differ by the capacity. Each end
// belongs to one thread. The memory must outlive both ends. No call here fails: the arena detects
// dead peers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "transport/link.h"
#include "transport/shm/shared_word.h"

namespace hvd {

// In shared memory, zero at first, followed by the ring itself.
struct PipeHeader {
  alignas(64) SharedWord written;
  alignas(64) SharedWord read;
};

// In bytes, a power of two: larger rings hold more of a message, smaller ones stay in the cache.
size_t pipe_capacity(int ranks_on_host);
constexpr size_t pipe_bytes(size_t capacity) { return sizeof(PipeHeader) + capacity; }

class PipeOut final : public OutLink {
 public:
  PipeOut(Bytes memory, size_t capacity);
  Result<size_t> write_some(ConstBytes out) override;
  void sleep(std::chrono::microseconds at_most) override;

 private:
  PipeHeader* header_;
  std::byte* ring_;
  size_t capacity_;
  uint64_t written_ = 0;
};

class PipeIn final : public InLink {
 public:
  PipeIn(Bytes memory, size_t capacity);
  Result<size_t> read_some(Bytes in) override;
  bool can_peek() const override { return true; }
  Result<ConstBytes> peek() override;
  void release(size_t bytes) override;
  void sleep(std::chrono::microseconds at_most) override;

 private:
  PipeHeader* header_;
  const std::byte* ring_;
  size_t capacity_;
  uint64_t read_ = 0;
};

}  // namespace hvd
