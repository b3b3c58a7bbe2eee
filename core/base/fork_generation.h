// SPDX-License-Identifier: Apache-2.0
// Tells an object whether it is the original or the copy in a forked child.
//
// A child that was forked without exec (such as a worker process that loads data) has copies of all
// objects of its parent, but none of its parent's threads. The destructors of the copies must not
// send messages to peers, wait for threads or close descriptors on behalf of the parent. An object
// that owns such things has a ForkGeneration as a member and tests in_child() first.
//
// Any thread may call in_child(); it is one atomic load.
#pragma once

#include <atomic>
#include <cstdint>

namespace hvd {

class ForkGeneration {
 public:
  ForkGeneration() : forks_(forks().load(std::memory_order_relaxed)) {}
  // True in a forked child of the process that constructed this object.
  bool in_child() const { return forks_ != forks().load(std::memory_order_relaxed); }

 private:
  // Number of forks between the process that loaded the library and this process. A pthread_atfork
  // handler increments it in the child.
  static std::atomic<uint32_t>& forks();
  uint32_t forks_;
};

}  // namespace hvd
