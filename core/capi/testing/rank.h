// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that run testing/scenario_main.cc, and the rendezvous server they meet at.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capi/hvd.h"

namespace scenario {

// Where the ranks of a job are, or are told to be.
enum class Placement {
  kOneHost,    // shared memory
  kManyHosts,  // each on a host of its own: TCP
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
  // Kills it if it still runs.
  ~Rank();

  // The next line it writes; a test fails and this is empty if none comes within 30 seconds, or
  // ever.
  std::string line();
  // All that it still writes, and how it ended: "ok\n" and 0 if all went well.
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

  // All ranks of a job of `size`.
  std::vector<Rank> start(const std::vector<std::string>& arguments, int size, Placement placement,
                          const Settings& more = {}) const;

 private:
  char secret_[HVD_SECRET_TEXT];
  hvd_store* rendezvous_ = nullptr;
};

}  // namespace scenario
