// SPDX-License-Identifier: Apache-2.0
// Scratch: working memory that a caller keeps from one collective to the next. It grows to the
// largest size ever requested and never shrinks, because the first touch of fresh pages costs
// several times as much as the collective that uses them.
//
// Not thread-safe: one user at a time. Throws std::bad_alloc without memory, and is then empty.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/bytes.h"

namespace hvd {

class Scratch {
 public:
  static constexpr size_t kAlignment = 64;  // bytes: a cache line and the widest vector (AVX-512)

  // `bytes` of memory with undefined content, aligned to kAlignment. Invalidates the memory of
  // earlier calls: a function that needs two areas calls once and divides the result.
  Bytes get(size_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();  // first, so that the old and the new area never exist together
      capacity_ = 0;    // in case the allocation throws
      const size_t rounded = round_up(bytes, kAlignment);
      memory_.reset(new (std::align_val_t{kAlignment}) std::byte[rounded]);
      capacity_ = rounded;
    }
    return {memory_.get(), bytes};
  }

  size_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  size_t capacity_ = 0;
};

}  // namespace hvd
