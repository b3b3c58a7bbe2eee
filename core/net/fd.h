// SPDX-License-Identifier: Apache-2.0
// Owns one file descriptor and closes it.
//
// A forked child closes them all. It would otherwise keep its parent's connections open, and the
// peers of a parent that was killed would hear of it only when its last child has ended too.
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
  // Gives the descriptor away without closing it.
  int release();
  // Closes the descriptor and takes `fd` instead.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
  ForkGeneration fork_generation_;
};

}  // namespace hvd
