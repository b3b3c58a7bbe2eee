// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

namespace hvd {

Status shared_memory_barrier(Arena& arena, Deadline deadline) {
  const uint64_t turn = arena.begin_turns(1);
  arena.raise(ArenaStage::kFilled, turn);
  return arena.wait_all(ArenaStage::kFilled, turn, deadline);
}

}  // namespace hvd
