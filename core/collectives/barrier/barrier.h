// SPDX-License-Identifier: Apache-2.0
// Barrier: no rank returns before every rank has called.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/shared_memory.h"
#include "transport/transport.h"

namespace hvd {

// In round k each rank tells the one 2^k to its right and hears from the one 2^k to its left,
// which by then has heard from 2^k - 1 others: after log2(n) rounds everybody knows of everybody.
Status dissemination_barrier(Transport& transport, Deadline deadline);

inline Status barrier(Transport& transport, Deadline deadline) {
  if (Arena* arena = arena_of_all(transport)) return shared_memory_barrier(*arena, deadline);
  return dissemination_barrier(transport, deadline);
}

}  // namespace hvd
