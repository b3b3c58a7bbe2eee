// Owns one file descriptor and closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace hvd {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor away without closing it.
  int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor and takes `fd` instead.
  void reset(int fd = -1) {
    // A close that is interrupted has closed all the same on Linux: never repeat it.
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace hvd
