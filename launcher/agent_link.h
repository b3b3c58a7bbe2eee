// SPDX-License-Identifier: Apache-2.0
// The launcher's end of one agent: the process that runs it or leads to it, and the connection.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "launcher/lines.h"
#include "launcher/link.h"
#include "launcher/processes.h"
#include "net/poller.h"

namespace hvd::launcher {

class AgentLink {
 public:
  // Starts `options.command`, which becomes an agent or leads to one; it and its standard error, if
  // that is taken, are polled with `token` and the two after it.
  static Result<std::unique_ptr<AgentLink>> start(SpawnOptions options, Poller& poller,
                                                  uint64_t token);
  ~AgentLink();

  // Takes what has arrived; 0 bytes: nothing has. Closes when the other side has.
  size_t fill();
  // The next message of what was taken. A broken one ends the connection.
  std::optional<Message> next();
  void send(const Message& message);
  void flush_all(Deadline deadline);
  // Writes what is queued and polls for the rest.
  void flush();

  // Lines that came by standard error since the last call; all of it is kept for diagnostics().
  std::vector<std::string> take_error_lines();
  // The last of what it has written, other than messages.
  std::string diagnostics() const;

  // Closes the connection. Without it an agent ends by itself.
  void close();
  bool is_open() const { return link_ != nullptr; }

  pid_t pid() const { return pid_; }
  // Called with what waitpid said.
  void reaped(int status) { status_ = status; }
  const std::optional<int>& status() const { return status_; }

 private:
  AgentLink(Child child, Poller& poller, uint64_t token);
  void close_error();

  Poller& poller_;
  const uint64_t token_;
  const pid_t pid_;
  std::unique_ptr<Link> link_;
  Fd error_;
  LineSplitter error_splitter_;
  std::string diagnostics_;
  std::string shell_output_;
  bool polled_for_output_ = false;
  std::optional<int> status_;
};

}  // namespace hvd::launcher
