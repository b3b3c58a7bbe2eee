// SPDX-License-Identifier: Apache-2.0
// Barrier: no rank returns before every rank has called.
#pragma once

#include "base/status.h"
#include "collectives/context.h"
#include "collectives/shared_memory.h"

namespace hvd {

// In round k each rank tells the one 2^k to its right and hears from the one 2^k to its left,
// which by then has heard from 2^k - 1 others: after log2(n) rounds everybody knows of everybody.
Status dissemination_barrier(const CollectiveContext& context);

inline Status barrier(const CollectiveContext& context) {
  if (Arena* arena = arena_of_all(context.transport))
    return shared_memory_barrier(*arena, context.deadline);
  return dissemination_barrier(context);
}

}  // namespace hvd
