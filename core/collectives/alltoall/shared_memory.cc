// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace hvd {
namespace {

// The bytes of the largest part of any pair of ranks. All ranks need the same number of turns, but
// a rank has only the sizes of its own parts: one extra turn exchanges the maxima.
Result<size_t> agree_on_largest(Arena& arena, std::span<const size_t> send_bytes,
                                Deadline deadline) {
  const size_t mine = *std::max_element(send_bytes.begin(), send_bytes.end());
  const uint64_t turn = arena.begin_turns(1);
  HVD_TRY(arena.claim(turn, deadline));
  std::memcpy(arena.slot(arena.rank(), turn), &mine, sizeof(mine));
  arena.raise(ArenaStage::kFilled, turn);
  HVD_TRY(arena.wait_all(ArenaStage::kFilled, turn, deadline));
  size_t largest = 0;
  for (int rank = 0; rank < arena.size(); ++rank) {
    size_t theirs = 0;
    std::memcpy(&theirs, arena.slot(rank, turn), sizeof(theirs));
    largest = std::max(largest, theirs);
  }
  return largest;
}

}  // namespace

// In each turn every rank puts the next piece for each peer into its slot, at peer · piece_bytes,
// and copies the pieces for itself from the slots of its peers.
Status shared_memory_alltoall(Arena& arena, ConstBytes in, std::span<const size_t> send_bytes,
                              Bytes out, std::span<const size_t> recv_bytes, Deadline deadline) {
  const int me = arena.rank();
  HVD_TRY_ASSIGN(const size_t largest, agree_on_largest(arena, send_bytes, deadline));
  const size_t piece_bytes = round_down(arena.slot_bytes() / send_bytes.size(), 64);
  const size_t turns = (largest + piece_bytes - 1) / piece_bytes;
  const uint64_t first_turn = arena.begin_turns(turns);
  std::vector<size_t> send_begin(send_bytes.size());
  std::vector<size_t> recv_begin(recv_bytes.size());
  std::exclusive_scan(send_bytes.begin(), send_bytes.end(), send_begin.begin(), size_t{0});
  std::exclusive_scan(recv_bytes.begin(), recv_bytes.end(), recv_begin.begin(), size_t{0});
  const auto piece_size = [&](size_t part_bytes, size_t index) {
    const size_t begin = index * piece_bytes;
    return part_bytes <= begin ? 0 : std::min(piece_bytes, part_bytes - begin);
  };
  const auto fill = [&](size_t index) -> Status {
    HVD_TRY(arena.claim(first_turn + index, deadline));
    for (int peer = 0; peer < arena.size(); ++peer) {
      const size_t bytes = piece_size(send_bytes[peer], index);
      if (peer == me || bytes == 0) continue;
      copy_bytes(arena.slot(me, first_turn + index) + peer * piece_bytes,
                 in.data() + send_begin[peer] + index * piece_bytes, bytes);
    }
    arena.raise(ArenaStage::kFilled, first_turn + index);
    return Status::ok();
  };

  copy_bytes(out.data() + recv_begin[me], in.data() + send_begin[me], send_bytes[me]);
  if (turns > 0) HVD_TRY(fill(0));
  for (size_t i = 0; i < turns; ++i) {
    if (i + 1 < turns) HVD_TRY(fill(i + 1));
    for (int peer = 0; peer < arena.size(); ++peer) {
      const size_t bytes = piece_size(recv_bytes[peer], i);
      if (peer == me || bytes == 0) continue;
      HVD_TRY(arena.wait(peer, ArenaStage::kFilled, first_turn + i, deadline));
      copy_bytes(out.data() + recv_begin[peer] + i * piece_bytes,
                 arena.slot(peer, first_turn + i) + me * piece_bytes, bytes);
    }
  }
  return Status::ok();
}

}  // namespace hvd
