// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "collectives/barrier/barrier.h"

namespace hvd {

Status dissemination_barrier(Transport& transport, Deadline deadline) {
  static constexpr std::array<std::byte, 1> kHere{};
  const int size = transport.size();
  for (int distance = 1; distance < size; distance *= 2) {
    std::array<std::byte, 1> heard;
    HVD_TRY(transport.send((transport.rank() + distance) % size, kHere, deadline));
    HVD_TRY(transport.recv((transport.rank() - distance + size) % size, heard, deadline));
  }
  // Not for the byte's sake, which never changes: a send may make no progress once we are gone.
  return transport.flush(deadline);
}

}  // namespace hvd
