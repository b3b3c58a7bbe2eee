// SPDX-License-Identifier: Apache-2.0
// Finds the hosts that a scheduler (Slurm, LSF, Kubernetes) has allocated to this job. They replace
// -H.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

// Resources of each host under LSF; all hosts of a job are alike.
struct NodeResources {
  int cores = 0;
  int threads_per_core = 1;
  int gpus = 0;
};

struct Allocation {
  std::string scheduler;  // for messages
  std::vector<HostSlots> hosts;
  int num_proc = 0;  // default of -np
  // Set under LSF if Cluster System Management is available.
  std::optional<NodeResources> node;
};

// The allocation that this process runs in, or none. In a pod of the Kubernetes MPI operator it is
// the host file of the operator. Fails if the scheduler's variables or files are malformed.
Result<std::optional<Allocation>> find_allocation(const SystemInfo& system);

// The program that replaces ssh in pods of the MPI operator without sshd; none elsewhere.
std::optional<std::string> kubernetes_shell(const SystemInfo& system);

}  // namespace hvd::launcher
