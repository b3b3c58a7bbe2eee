// SPDX-License-Identifier: Apache-2.0
// The allocation of a Slurm job, from its environment variables. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/plan/schedulers.h"

namespace hvd::launcher {

// "n[01-03,7],gpu-a,r[1-2]n[1-2]": n01 n02 n03 n7 gpu-a r1n1 r1n2 r2n1 r2n2.
Result<std::vector<std::string>> expand_node_list(std::string_view text);

// "4(x2),3": 4 4 3.
Result<std::vector<int>> expand_task_counts(std::string_view text);

// Reads SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE and SLURM_NTASKS. Fails if one is malformed or if
// they describe different numbers of hosts.
Result<Allocation> slurm_allocation(const SystemInfo& system);

}  // namespace hvd::launcher
