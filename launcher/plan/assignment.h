// SPDX-License-Identifier: Apache-2.0
// Assigns ranks to hosts. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "launcher/launch.h"
#include "launcher/plan/hosts.h"

namespace hvd::launcher {

// Returns exactly `num_proc` values, one for each rank, sorted by rank. Ranks fill the slots of the
// hosts in the order of the hosts, so the last host in use may have free slots. local_size counts
// the ranks of a host, not its slots. Fails if there are fewer slots than processes.
Result<std::vector<Slot>> assign_slots(const std::vector<HostSlots>& hosts, int num_proc);

}  // namespace hvd::launcher
