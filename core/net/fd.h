// SPDX-License-Identifier: Apache-2.0
// Owns one file descriptor and closes it in its destructor.
//
// A forked child closes the descriptors of all Fd objects at once. Otherwise it would keep its
// parent's connections open, and the peers of a parent that was killed would detect that only after
// its last child has ended too. Copies of Fd objects in the child therefore close nothing.
//
// Not thread-safe, except that different Fd objects may be used by different threads.
#pragma once

#include <utility>

#include "base/fork_generation.h"

namespace hvd {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) { reset(fd); }
  Fd(Fd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), fork_generation_(other.fork_generation_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = std::exchange(other.fd_, -1);
    fork_generation_ = other.fork_generation_;
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Returns the descriptor, which the caller owns from now on.
  int release();
  // Closes the descriptor and takes ownership of `fd`.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
  ForkGeneration fork_generation_;
};

}  // namespace hvd
