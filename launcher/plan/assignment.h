// SPDX-License-Identifier: Apache-2.0
// Which rank runs where.
#pragma once

#include <vector>

#include "base/status.h"
#include "launcher/launch.h"
#include "launcher/plan/hosts.h"

namespace hvd::launcher {

// Exactly `num_proc` slots: ranks fill the hosts in their order, one slot after the other. The last
// host that is used may be left with free slots, and local_size counts ranks, not slots. Fails when
// there are fewer slots than processes.
Result<std::vector<Slot>> assign_slots(const std::vector<HostSlots>& hosts, int num_proc);

}  // namespace hvd::launcher
