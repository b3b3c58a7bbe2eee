// SPDX-License-Identifier: Apache-2.0
// The command line of jsrun, the launcher of IBM's LSF clusters, and the rank file (ERF) that
// assigns cores to ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/schedulers.h"

namespace hvd::launcher {

// The text of the rank file: one rank per GPU, with equal shares of the host's cores. Fails if a
// host has more slots than GPUs, or if all hosts together have fewer slots than `num_proc`.
Result<std::string> jsrun_rank_file(const std::vector<HostSlots>& hosts, int num_proc,
                                    const NodeResources& node);

struct JsrunJob {
  std::vector<std::string> command;
  // --binding-args; replaces the rank file.
  std::optional<std::vector<std::string>> binding;
  std::string output;                      // file for both streams; empty: none
  std::vector<std::string> mpi_arguments;  // for --smpiargs
};

// Index of the path of the rank file in jsrun_command(), if `binding` is not set. The caller writes
// the file and sets the path.
inline constexpr size_t kRankFileArgument = 2;

std::vector<std::string> jsrun_command(const JsrunJob& job);

}  // namespace hvd::launcher
