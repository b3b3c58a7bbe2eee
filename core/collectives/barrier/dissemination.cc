// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "collectives/barrier/barrier.h"

namespace hvd {

Status dissemination_barrier(const CollectiveContext& context) {
  static constexpr std::array<std::byte, 1> kHere{};
  const int size = context.size();
  for (int distance = 1; distance < size; distance *= 2) {
    std::array<std::byte, 1> heard;
    HVD_TRY(context.send((context.rank() + distance) % size, kHere));
    HVD_TRY(context.recv((context.rank() - distance + size) % size, heard));
  }
  // The byte never changes, so it needs no flush; but a send may make no progress after this rank
  // has left the collective.
  return context.flush();
}

}  // namespace hvd
