// SPDX-License-Identifier: Apache-2.0
// A checked description of a job: what to start, and where. It combines the command line, the
// config file and the environment. plan/plan.cc makes it; run.cc executes it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launcher {

// The place of one rank: its host and its numbers in the job, which start at 0. HostSlots::slots
// (plan/hosts.h) is another thing: the number of ranks that a host can take.
struct Slot {
  std::string host;  // as the user wrote it; an IPv6 address without brackets
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  // index of this host among the hosts that have this local rank
  int cross_size = 1;
  bool operator==(const Slot&) const = default;
};

struct RemoteShell {
  // "ssh", or a program with the same arguments: a host and a command (kubexec.sh in Kubernetes).
  std::string program = "ssh";
  std::optional<int> port;
  std::string identity_file;           // empty: ssh's own configuration
  std::vector<std::string> arguments;  // additional ones, before the host
};

struct OutputOptions {
  std::string directory;    // empty: no files
  bool timestamps = false;  // before the prefix of each line
};

struct Launch {
  std::vector<std::string> command;
  std::vector<Slot> slots;  // in order of rank; the slots of a host are adjacent
  // Common to all ranks: the user's environment plus the variables of flags and config file. The
  // agent adds them to the environment of its host, and then adds the variables of each rank and
  // the secret. Host-specific variables are left out here: CUDA_VISIBLE_DEVICES of the launcher is
  // valid on the launcher's host only. The ranks have those of their own host instead.
  std::map<std::string, std::string> environment;
  std::string directory;  // the ranks' working directory
  RemoteShell shell;
  OutputOptions output;
  std::vector<std::string> interfaces;     // allowed for ranks and launcher; empty: all
  std::chrono::seconds start_timeout{30};  // for all agents to be ready
  bool tls = false;
  bool verbose = false;
};

}  // namespace hvd::launcher
