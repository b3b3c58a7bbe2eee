// SPDX-License-Identifier: Apache-2.0
// Records on their way from the thread that runs the engine to the thread that writes the timeline:
// a ring of bytes without locks, for one producer and one consumer at a time. A record is
// contiguous, so both sides work in place. When the ring is full, reserve() returns null at once.
//
//   u64 length | record, padded to 8 bytes | u64 length | record | … | kSkip | unused up to the
//   edge
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/status.h"

namespace hvd {

class RecordRing {
 public:
  // In bytes, rounded up to a power of two. Two records of the largest size have to fit.
  explicit RecordRing(size_t capacity)
      : capacity_(std::bit_ceil(capacity)),
        memory_(new (std::align_val_t{64}) std::byte[capacity_]) {}

  // Touches all memory before the first use: 16 page faults would cost a step of 1,000 tensors 50
  // us. Before that the ring costs address space only.
  void populate() { std::memset(memory_.get(), 0, capacity_); }

  // Producer: room for a record, or null when there is none; becomes visible by commit().
  std::byte* reserve(size_t bytes) {
    const uint64_t whole = sizeof(uint64_t) + ((bytes + 7) & ~uint64_t{7});
    const uint64_t to_edge = capacity_ - (head_ & (capacity_ - 1));
    const uint64_t skipped = whole <= to_edge ? 0 : to_edge;
    if (skipped + whole > capacity_ - (head_ - known_tail_)) {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (skipped + whole > capacity_ - (head_ - known_tail_)) return nullptr;
    }
    if (skipped != 0) set_length(head_, kSkip);
    head_ += skipped;
    set_length(head_, bytes);
    reserved_ = whole;
    return at(head_) + sizeof(uint64_t);
  }
  void commit() {
    head_ += reserved_;
    published_.store(head_, std::memory_order_release);
  }
  // Producer: whether at least half of the ring was in use when last looked at.
  bool is_half_full() {
    if (head_ - known_tail_ < capacity_ / 2) return false;
    known_tail_ = tail_.load(std::memory_order_acquire);
    return head_ - known_tail_ >= capacity_ / 2;
  }

  // Consumer: the oldest record, empty when there is none; it stays until pop().
  std::span<const std::byte> front() {
    while (true) {
      const uint64_t tail = tail_.load(std::memory_order_relaxed);
      if (tail == published_.load(std::memory_order_acquire)) return {};
      const uint64_t length = length_at(tail);
      if (length != kSkip) return {at(tail) + sizeof(uint64_t), length};
      tail_.store(tail + capacity_ - (tail & (capacity_ - 1)), std::memory_order_release);
    }
  }
  void pop() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const uint64_t whole = sizeof(uint64_t) + ((length_at(tail) + 7) & ~uint64_t{7});
    tail_.store(tail + whole, std::memory_order_release);
  }
  bool empty() const {
    return tail_.load(std::memory_order_relaxed) == published_.load(std::memory_order_acquire);
  }

 private:
  static constexpr uint64_t kSkip = ~uint64_t{0};  // instead of a length: continue at the start
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::byte* at(uint64_t position) const { return memory_.get() + (position & (capacity_ - 1)); }
  void set_length(uint64_t position, uint64_t length) {
    std::memcpy(at(position), &length, sizeof(length));
  }
  uint64_t length_at(uint64_t position) const {
    uint64_t length = 0;
    std::memcpy(&length, at(position), sizeof(length));
    return length;
  }

  // Constant.
  const uint64_t capacity_;
  const std::unique_ptr<std::byte[], Free> memory_;
  // Producer only. Positions count bytes since the beginning.
  alignas(64) uint64_t head_ = 0;
  uint64_t known_tail_ = 0;
  uint64_t reserved_ = 0;
  // Shared, each on a cache line of its own. The release store of published_ makes a record visible
  // to the consumer; that of tail_ gives its memory back to the producer.
  alignas(64) std::atomic<uint64_t> published_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

}  // namespace hvd
