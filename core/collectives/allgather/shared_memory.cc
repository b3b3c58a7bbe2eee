// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hvd {

// In each turn every rank fills its slot with the next piece of its part, of at most one slot, and
// copies the pieces of its peers to `out`. The turns cover the largest part; a rank with a shorter
// part raises its progress word for an empty slot. A rank fills the slot of turn i + 1 before it
// reads the slots of turn i, so that no rank waits for the slowest copier.
Status shared_memory_allgather(Arena& arena, ConstBytes mine, Bytes out,
                               std::span<const size_t> bytes_of, Deadline deadline) {
  const int me = arena.rank();
  const size_t chunk_bytes = arena.slot_bytes();
  const size_t largest = *std::max_element(bytes_of.begin(), bytes_of.end());
  const size_t turns = (largest + chunk_bytes - 1) / chunk_bytes;
  const uint64_t first_turn = arena.begin_turns(turns);
  const auto piece_size = [&](int rank, size_t index) {
    const size_t begin = index * chunk_bytes;
    return bytes_of[rank] <= begin ? 0 : std::min(chunk_bytes, bytes_of[rank] - begin);
  };
  const auto fill = [&](size_t index) -> Status {
    HVD_TRY(arena.claim(first_turn + index, deadline));
    if (const size_t bytes = piece_size(me, index); bytes > 0) {
      copy_bytes(arena.slot(me, first_turn + index), mine.data() + index * chunk_bytes, bytes);
    }
    arena.raise(ArenaStage::kFilled, first_turn + index);
    return Status::ok();
  };

  const size_t my_begin = std::accumulate(bytes_of.begin(), bytes_of.begin() + me, size_t{0});
  if (!mine.empty() && out.data() + my_begin != mine.data()) {
    std::memmove(out.data() + my_begin, mine.data(), mine.size());
  }
  if (turns > 0) HVD_TRY(fill(0));
  for (size_t i = 0; i < turns; ++i) {
    if (i + 1 < turns) HVD_TRY(fill(i + 1));
    size_t part_begin = 0;
    for (int peer = 0; peer < arena.size(); part_begin += bytes_of[peer++]) {
      const size_t bytes = piece_size(peer, i);
      if (peer == me || bytes == 0) continue;
      HVD_TRY(arena.wait(peer, ArenaStage::kFilled, first_turn + i, deadline));
      copy_bytes(out.data() + part_begin + i * chunk_bytes, arena.slot(peer, first_turn + i),
                 bytes);
    }
  }
  return Status::ok();
}

}  // namespace hvd
