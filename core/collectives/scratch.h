// SPDX-License-Identifier: Apache-2.0
// Working memory that a caller keeps from one collective to the next. It grows to the largest size
// ever asked for and never shrinks: the first touch of fresh pages costs several times as much as
// the collective that uses them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/bytes.h"

namespace hvd {

class Scratch {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector there is

  // `bytes` of memory with any content, aligned to kAlignment. Memory got before is gone: a
  // function that needs two areas asks once and divides what it gets.
  Bytes get(size_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();  // first, so that the old and the new area are never held together
      capacity_ = 0;    // in case there is no memory
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
