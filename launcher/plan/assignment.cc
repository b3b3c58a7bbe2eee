// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/assignment.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvd::launcher {

Result<std::vector<Slot>> assign_slots(const std::vector<HostSlots>& hosts, int num_proc) {
  if (slots_of(hosts) < num_proc) {
    return invalid_argument(fmt::format(
        "Requested more processes ({}) than there are slots ({} in {}): lower -np or add slots",
        num_proc, slots_of(hosts), to_string(hosts)));
  }
  std::vector<Slot> slots;
  for (const HostSlots& host : hosts) {
    const int left = num_proc - static_cast<int>(slots.size());
    const int local_size = std::min(host.slots, left);
    for (int i = 0; i < local_size; ++i) {
      slots.push_back({.host = host.name,
                       .rank = static_cast<int>(slots.size()),
                       .size = num_proc,
                       .local_rank = i,
                       .local_size = local_size});
    }
  }
  // cross_rank counts the hosts that have this local rank, in the order of hosts.
  std::vector<int> hosts_with(static_cast<size_t>(num_proc), 0);
  for (Slot& slot : slots) {
    slot.cross_rank = hosts_with[static_cast<size_t>(slot.local_rank)]++;
  }
  for (Slot& slot : slots) slot.cross_size = hosts_with[static_cast<size_t>(slot.local_rank)];
  return slots;
}

}  // namespace hvd::launcher
