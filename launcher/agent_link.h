// SPDX-License-Identifier: Apache-2.0
// The launcher's side of one agent: the child process (the agent itself, or the ssh that reaches
// it) and the message connection over its standard streams.
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

// Belongs to the thread of the poller. The poller must outlive it. The owner reaps the process
// (waitpid) and passes the result to reaped(); the destructor closes descriptors and kills nothing.
class AgentLink {
 public:
  // Starts `options.command`, an agent or a remote shell that starts one. Poller events use three
  // tokens: `token` for messages to read, `token` + 1 for room to write, `token` + 2 for standard
  // error, if `options.take_stderr`. Fails as spawn() does.
  static Result<std::unique_ptr<AgentLink>> start(SpawnOptions options, Poller& poller,
                                                  uint64_t token);
  ~AgentLink();

  // Reads once and returns the number of bytes; 0 if nothing has arrived. At the end of the stream
  // it closes the connection.
  size_t fill();
  // The next complete message among the bytes read. A malformed message closes the connection.
  std::optional<Message> next();
  void send(const Message& message);
  // Blocks until everything is written, or until the deadline.
  void flush_all(Deadline deadline);
  // Writes without blocking and polls for writability if something is left.
  void flush();

  // Complete lines of standard error since the last call, without line ends. The last 4 KiB of the
  // stream also remain available through diagnostics().
  std::vector<std::string> take_error_lines();
  // The last part of the text that the process wrote: the text before the agent's preamble, then
  // standard error. It explains why an agent did not start.
  std::string diagnostics() const;

  // Closes the connection. An agent that loses it stops its ranks and exits.
  void close();
  bool is_open() const { return link_ != nullptr; }

  pid_t pid() const { return pid_; }
  // Records the status of waitpid.
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
