// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

#include <algorithm>

namespace hvd {

// The root fills its slot of every turn and all other ranks copy it at the same time. Two turns are
// in progress at once: in turn t, claim() makes the root wait until all ranks have raised kFilled
// to t-2.
Status shared_memory_broadcast(Arena& arena, Bytes data, int root, Deadline deadline) {
  const size_t chunk_bytes = std::min<size_t>(arena.slot_bytes(), 64 * 1024);
  const size_t turns = (data.size() + chunk_bytes - 1) / chunk_bytes;
  const uint64_t first_turn = arena.begin_turns(turns);
  for (size_t i = 0; i < turns; ++i) {
    const uint64_t turn = first_turn + i;
    const size_t begin = i * chunk_bytes;
    const Bytes chunk = data.subspan(begin, std::min(chunk_bytes, data.size() - begin));
    if (arena.rank() == root) {
      HVD_TRY(arena.claim(turn, deadline));
      copy_bytes(arena.slot(root, turn), chunk.data(), chunk.size());
      arena.raise(ArenaStage::kFilled, turn);
    } else {
      arena.raise(ArenaStage::kFilled, turn);
      HVD_TRY(arena.wait(root, ArenaStage::kFilled, turn, deadline));
      copy_bytes(chunk.data(), arena.slot(root, turn), chunk.size());
    }
  }
  return Status::ok();
}

}  // namespace hvd
