// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace hvd {

// In each turn every rank puts one piece for each owner into its slot, at owner · piece_bytes, and
// combines the pieces that its peers have for it. It fills the slot of turn i + 1 before it
// combines turn i.
Status shared_memory_reducescatter(Arena& arena, ConstBytes in, Bytes out,
                                   std::span<const size_t> bytes_of, const Reduction& reduction,
                                   Deadline deadline) {
  const int me = arena.rank();
  const size_t piece_bytes = round_down(arena.slot_bytes() / bytes_of.size(), 64);
  const size_t largest = *std::max_element(bytes_of.begin(), bytes_of.end());
  const size_t turns = (largest + piece_bytes - 1) / piece_bytes;
  const uint64_t first_turn = arena.begin_turns(turns);
  std::vector<size_t> part_begin(bytes_of.size());
  std::exclusive_scan(bytes_of.begin(), bytes_of.end(), part_begin.begin(), size_t{0});
  const auto piece_size = [&](int owner, size_t index) {
    const size_t begin = index * piece_bytes;
    return bytes_of[owner] <= begin ? 0 : std::min(piece_bytes, bytes_of[owner] - begin);
  };
  const auto fill = [&](size_t index) -> Status {
    HVD_TRY(arena.claim(first_turn + index, deadline));
    for (int owner = 0; owner < arena.size(); ++owner) {
      // The own piece is read from `in`, unless it has to be scaled first.
      if (owner == me && !reduction.needs_prepare()) continue;
      const Bytes piece(arena.slot(me, first_turn + index) + owner * piece_bytes,
                        piece_size(owner, index));
      copy_bytes(piece.data(), in.data() + part_begin[owner] + index * piece_bytes, piece.size());
      reduction.prepare(piece);
    }
    arena.raise(ArenaStage::kFilled, first_turn + index);
    return Status::ok();
  };

  if (turns > 0) HVD_TRY(fill(0));
  for (size_t i = 0; i < turns; ++i) {
    if (i + 1 < turns) HVD_TRY(fill(i + 1));
    const Bytes result = out.subspan(std::min(out.size(), i * piece_bytes), piece_size(me, i));
    if (result.empty()) continue;
    HVD_TRY(arena.wait_all(ArenaStage::kFilled, first_turn + i, deadline));
    const std::byte* inputs[Arena::kMostRanks];
    for (int rank = 0; rank < arena.size(); ++rank) {
      inputs[rank] = rank == me && !reduction.needs_prepare()
                         ? in.data() + part_begin[me] + i * piece_bytes
                         : arena.slot(rank, first_turn + i) + me * piece_bytes;
    }
    reduction.combine_all(result, std::span(inputs, arena.size()));
    reduction.finish(result);
  }
  return Status::ok();
}

}  // namespace hvd
