// SPDX-License-Identifier: Apache-2.0
// The allocation of an LSF job. If Cluster System Management runs (CSM_ALLOCATION_ID is set), its
// query programs report the hosts, and each GPU is a slot. Otherwise LSF's own variables contain
// hosts and slots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/plan/schedulers.h"

namespace hvd::launcher {

bool is_under_lsf(const SystemInfo& system);

// May start query programs. Fails if they fail, or if no hosts are found.
Result<Allocation> lsf_allocation(const SystemInfo& system);

// Parse the YAML output of `csm_allocation_query -a` and `csm_node_attributes_query -n`.
Result<std::vector<std::string>> parse_compute_nodes(const std::string& answer);
Result<NodeResources> parse_node_attributes(const std::string& answer);

}  // namespace hvd::launcher
