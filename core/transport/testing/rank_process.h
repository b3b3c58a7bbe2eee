// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, for tests that threads cannot do: death, freezing, fork.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"
#include "net/rendezvous.h"
#include "net/secret.h"

namespace hvd::testing {

class RankProcess {
 public:
  // Runs testing/rank_main.cc.
  static Result<RankProcess> start(const std::string& task, int rank, int size,
                                   const std::string& host, const Secret& secret,
                                   const RendezvousServer& rendezvous);
  // Runs a program that reads rank_arguments.h.
  static Result<RankProcess> start_program(const std::string& program, const std::string& task,
                                           int rank, int size, const std::string& host,
                                           const Secret& secret,
                                           const RendezvousServer& rendezvous);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  // Kills it if it still runs.
  ~RankProcess();

  // The next line it writes.
  Result<std::string> line(Deadline deadline);
  void kill();
  // Stops it with SIGSTOP, as a debugger does.
  void freeze();
  void thaw();
  // Waits for its end and returns its exit status; -1 if a signal ended it.
  int wait();

 private:
  RankProcess(int pid, Fd output) : pid_(pid), output_(std::move(output)) {}
  int pid_;
  Fd output_;
  std::string pending_;
};

}  // namespace hvd::testing
