// SPDX-License-Identifier: Apache-2.0
// Signals as something to read, for programs that wait in a poller.
#pragma once

#include <initializer_list>
#include <optional>

#include "base/status.h"
#include "net/fd.h"

namespace hvd::launcher {

struct Signal {
  int number;
  bool
      by_terminal;  // which sends it to the whole foreground group; otherwise to this process alone
};

// From now on the given signals do nothing but wait here. One that is ignored, as SIGHUP is under
// nohup, stays ignored. Before any thread is started: threads inherit it. Also ignores SIGPIPE.
class Signals {
 public:
  static Result<Signals> block(std::initializer_list<int> signals);
  int fd() const { return fd_.get(); }
  // The next one that has arrived.
  std::optional<Signal> next();

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace hvd::launcher
