// SPDX-License-Identifier: Apache-2.0
// horovodrun --doctor: checks this machine and the hosts without starting a job, and reports what
// would prevent or slow down a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/protocol.h"

namespace hvd::launcher {

// Prints the report to standard output. Returns the exit code: 0 without problems, 1 otherwise.
// Takes up to the start timeout plus 12 s, and then about a second per measured path.
int run_doctor(const Doctor& doctor);

// What the doctor learned about one host. `trouble` is set if there are no findings: the reason.
struct HostRecord {
  std::string name;
  int slots = 1;
  bool remote = false;
  std::string trouble;
  std::string version;
  std::optional<Findings> findings;
  int64_t clock_ahead_us = 0;  // relative to the launcher's clock; includes the latency of ssh
};

// The network path between two hosts, by index.
struct PathRecord {
  size_t from = 0;
  size_t to = 0;
  Measurement measured;
};

struct Verdict {
  std::string text;
  int problems = 0;
};

// Turns the records into text. Pure, so that tests need no hosts.
Verdict make_verdict(const std::vector<HostRecord>& hosts, const std::vector<PathRecord>& paths);

}  // namespace hvd::launcher
