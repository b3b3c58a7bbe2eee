// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, for tests of what threads cannot show.
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
  // Runs a program that takes its place by rank_place.h.
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
  // Freezes it, as a debugger or a machine out of memory does.
  void freeze();
  void thaw();
  // Its exit status, once it has ended; -1 if a signal ended it.
  int wait();

 private:
  RankProcess(int pid, Fd output) : pid_(pid), output_(std::move(output)) {}
  int pid_;
  Fd output_;
  std::string pending_;
};

}  // namespace hvd::testing
