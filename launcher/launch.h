// SPDX-License-Identifier: Apache-2.0
// What is to be started, and where: all that the command line, the config file and the environment
// have said, checked and put together. plan.cc makes one; run.cc carries it out.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launcher {

// Where one rank runs, and who it is there.
struct Slot {
  std::string host;  // as the user has written it; an IPv6 address without its brackets
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  // of this host among those that have this local rank
  int cross_size = 1;
  bool operator==(const Slot&) const = default;
};

struct RemoteShell {
  // "ssh", or what takes its place, as in Kubernetes: a program that is given a host and a command.
  std::string program = "ssh";
  std::optional<int> port;
  std::string identity_file;           // empty: as ssh is configured
  std::vector<std::string> arguments;  // more of them, before the host
};

struct OutputOptions {
  std::string directory;    // empty: no files
  bool timestamps = false;  // before the rank
};

struct Launch {
  std::vector<std::string> command;
  std::vector<Slot> slots;  // in order of rank; those of a host stand together
  // Of every rank: the user's own and what flags and config file have set. What differs from rank
  // to rank, and the secret, is added when it starts. It is laid over what each host has by itself,
  // because it leaves out what means something on one host only: CUDA_VISIBLE_DEVICES given to the
  // launcher holds for the ranks beside it and for no others.
  std::map<std::string, std::string> environment;
  std::string directory;  // the ranks' working directory
  RemoteShell shell;
  OutputOptions output;
  std::vector<std::string> interfaces;  // that ranks and launcher may use; empty: all
  std::chrono::seconds start_timeout{30};
  bool tls = false;
  bool verbose = false;
};

}  // namespace hvd::launcher
