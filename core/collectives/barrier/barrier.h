// SPDX-License-Identifier: Apache-2.0
// Barrier: no rank returns before every rank has called it.
#pragma once

#include "base/status.h"
#include "collectives/context.h"
#include "collectives/shared_memory.h"

namespace hvd {

// Dissemination: in round k each rank sends a byte to the rank 2^k to its right and receives one
// from the rank 2^k to its left, which has received, directly or not, from 2^k - 1 ranks before.
// After ceil(log2(n)) rounds every rank depends on every other rank. log2(n) latencies.
Status dissemination_barrier(const CollectiveContext& context);

// Through shared memory if all ranks are on one host and have it, else by dissemination.
inline Status barrier(const CollectiveContext& context) {
  if (Arena* arena = arena_of_all(context.transport))
    return shared_memory_barrier(*arena, context.deadline);
  return dissemination_barrier(context);
}

}  // namespace hvd
