// SPDX-License-Identifier: Apache-2.0
// A job of LSF. Where Cluster System Management runs (CSM_ALLOCATION_ID is set), it is asked for
// the hosts, and a rank is meant for each GPU; elsewhere LSF's own variables tell hosts and slots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/plan/schedulers.h"

namespace hvd::launcher {

bool is_under_lsf(const SystemInfo& system);

Result<Allocation> lsf_allocation(const SystemInfo& system);

// Answers of `csm_allocation_query -a` and `csm_node_attributes_query -n`, which are YAML.
Result<std::vector<std::string>> parse_compute_nodes(const std::string& answer);
Result<NodeResources> parse_node_attributes(const std::string& answer);

}  // namespace hvd::launcher
