// SPDX-License-Identifier: Apache-2.0
// Receives signals through a descriptor (signalfd), for programs that wait in a poller.
#pragma once

#include <initializer_list>
#include <optional>

#include "base/status.h"
#include "net/fd.h"

namespace hvd::launcher {

struct Signal {
  int number;
  // Sent by the terminal to the whole foreground group; otherwise to this process alone.
  bool by_terminal;
};

// Blocks signals so that they are only delivered through fd(). A signal that was ignored before, as
// SIGHUP is under nohup, stays ignored. Also ignores SIGPIPE. Call block() before any thread is
// started: threads inherit the mask. The signals stay blocked after destruction; spawn() restores
// the mask for children.
class Signals {
 public:
  static Result<Signals> block(std::initializer_list<int> signals);
  int fd() const { return fd_.get(); }
  // The next pending signal, or none. Does not block.
  std::optional<Signal> next();

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace hvd::launcher
