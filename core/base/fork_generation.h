// SPDX-License-Identifier: Apache-2.0
// Remembers in which process an object was made. A child that was forked without exec, such as a
// worker that loads data, has copies of all objects of its parent but none of its threads: when it
// ends, the copies must not say goodbye, wait for threads or close descriptors in its parent's
// name.
#pragma once

#include <atomic>
#include <cstdint>

namespace hvd {

class ForkGeneration {
 public:
  ForkGeneration() : forks_(forks().load(std::memory_order_relaxed)) {}
  // Whether this is a copy in a child of the process that made it.
  bool in_child() const { return forks_ != forks().load(std::memory_order_relaxed); }

 private:
  // How many forks lie between the first process that used this and the present one.
  static std::atomic<uint32_t>& forks();
  uint32_t forks_;
};

}  // namespace hvd
