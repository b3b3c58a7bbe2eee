// SPDX-License-Identifier: Apache-2.0
// Hosts that a scheduler has set aside for this job: what -H would say if the user had to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

// What a rank of a cluster under LSF gets: all hosts of one job are alike.
struct NodeResources {
  int cores = 0;
  int threads_per_core = 1;
  int gpus = 0;
};

struct Allocation {
  std::string scheduler;  // for messages
  std::vector<HostSlots> hosts;
  int num_proc = 0;  // when the user names none
  // Known under LSF where Cluster System Management can be asked.
  std::optional<NodeResources> node;
};

// The one that this process runs in, if any. Of a Kubernetes pod of the MPI operator it is the host
// file that the operator has made.
Result<std::optional<Allocation>> find_allocation(const SystemInfo& system);

// The program that takes ssh's place in pods of the MPI operator that have no sshd.
std::optional<std::string> kubernetes_shell(const SystemInfo& system);

}  // namespace hvd::launcher
