// SPDX-License-Identifier: Apache-2.0
// The command line of jsrun, the launcher of IBM's clusters, and the file that says which rank gets
// which cores.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/schedulers.h"

namespace hvd::launcher {

// One rank per GPU, the cores of a host in equal shares. Fails when a host has more slots than
// GPUs, or all together fewer than `num_proc`.
Result<std::string> jsrun_rank_file(const std::vector<HostSlots>& hosts, int num_proc,
                                    const NodeResources& node);

struct JsrunJob {
  std::vector<std::string> command;
  // In place of the rank file.
  std::optional<std::vector<std::string>> binding;
  std::string output;                      // for both streams; empty: none
  std::vector<std::string> mpi_arguments;  // for MPI below it
};

// Where the path of the rank file has to stand, unless `binding` takes its place.
inline constexpr size_t kRankFileArgument = 2;

std::vector<std::string> jsrun_command(const JsrunJob& job);

}  // namespace hvd::launcher
