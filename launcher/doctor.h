// SPDX-License-Identifier: Apache-2.0
// horovodrun --doctor: looks at the machine and the hosts, starts no job, and says in plain words
// whether one would run well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/protocol.h"

namespace hvd::launcher {

// Prints to standard output. Returns 0 when nothing is in the way of a job, 1 otherwise.
int run_doctor(const Doctor& doctor);

// What is known of a host; `trouble` says why it is nothing.
struct HostRecord {
  std::string name;
  int slots = 1;
  bool remote = false;
  std::string trouble;
  std::string version;
  std::optional<Findings> findings;
  int64_t clock_ahead_us = 0;  // of the launcher's
};

struct PathRecord {
  size_t from = 0;
  size_t to = 0;
  Measurement measured;
};

struct Verdict {
  std::string text;
  int problems = 0;
};

// Pure.
Verdict make_verdict(const std::vector<HostRecord>& hosts, const std::vector<PathRecord>& paths);

}  // namespace hvd::launcher
