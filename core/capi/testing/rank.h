// SPDX-License-Identifier: Apache-2.0
// Rank: a process that runs testing/scenario_main.cc. Store: the rendezvous server of such a job.
// Both belong to one test and are not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capi/hvd.h"

namespace scenario {

// The hosts of the ranks of a job, real or simulated.
enum class Placement {
  kOneHost,    // shared memory
  kManyHosts,  // one rank per host: TCP
  kTwoHosts,   // both
  kNoMemory,   // one host, but HOROVOD_SHM_DISABLE=1
};
std::string to_string(Placement placement);

using Settings = std::map<std::string, std::string>;

class Rank {
 public:
  Rank(const std::vector<std::string>& arguments, const Settings& settings);
  Rank(Rank&& other) noexcept;
  Rank& operator=(Rank&&) = delete;
  // Kills the process if it still runs.
  ~Rank();

  // The next line that it writes. If there is none within 30 seconds, the test fails and this is
  // empty.
  std::string line();
  // The rest of its output and its exit code: "ok\n" and 0 for success.
  struct End {
    std::string output;
    int code;
  };
  End end();
  void send(int signal) const;

 private:
  bool read_more();

  pid_t pid_;
  int output_;
  std::string pending_;
};

class Store {
 public:
  Store();
  ~Store() { hvd_store_stop(rendezvous_); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Starts all ranks of a job of `size` ranks.
  std::vector<Rank> start(const std::vector<std::string>& arguments, int size, Placement placement,
                          const Settings& more = {}) const;

 private:
  char secret_[HVD_SECRET_TEXT];
  hvd_store* rendezvous_ = nullptr;
};

}  // namespace scenario
