// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "collectives/barrier/barrier.h"

namespace hvd {

Status dissemination_barrier(Transport& net, Deadline deadline) {
  static constexpr std::array<std::byte, 1> kHere{};
  const int size = net.size();
  for (int distance = 1; distance < size; distance *= 2) {
    std::array<std::byte, 1> heard;
    HVD_TRY(net.send((net.rank() + distance) % size, kHere, deadline));
    HVD_TRY(net.recv((net.rank() - distance + size) % size, heard, deadline));
  }
  // Not for the byte's sake, which never changes: a send may make no progress once we are gone.
  return net.flush(deadline);
}

}  // namespace hvd
