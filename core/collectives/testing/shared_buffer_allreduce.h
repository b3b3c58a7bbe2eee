// SPDX-License-Identifier: Apache-2.0
// An allreduce of data that already lies in shared memory. Only a benchmark and tests use it: see
// transport/testing/shared_buffer.h.
#pragma once

#include <cstddef>

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/reduction.h"
#include "transport/shm/arena.h"
#include "transport/testing/shared_buffer.h"

namespace hvd {

// Collective over the ranks of `arena`. Reduces the first `bytes` bytes of every rank's part of
// `buffer` in place: each rank loads its slice from all parts and stores the result to all parts,
// without slots and without copies. Up to 16 KiB (8 KiB for two ranks) it uses the slots, which
// takes one round of progress words instead of two.
Status shared_buffer_allreduce(Arena& arena, const SharedBuffer& buffer, size_t bytes,
                               const Reduction& reduction, Deadline deadline);

}  // namespace hvd
