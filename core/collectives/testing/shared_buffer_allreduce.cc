// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/shared_buffer_allreduce.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "collectives/shared_memory.h"
#include "collectives/slices.h"

namespace hvd {
namespace {

// A block stays in the first-level cache between the reduction and the copies to the other parts.
constexpr size_t kBlock = 8 * 1024;

}  // namespace

Status shared_buffer_allreduce(Arena& arena, const SharedBuffer& buffer, size_t bytes,
                               const Reduction& reduction, Deadline deadline) {
  HVD_CHECK(bytes <= buffer.mine().size());
  if (bytes <= one_phase_limit(arena.size())) {
    return shared_memory_allreduce(arena, buffer.mine().first(bytes), reduction, deadline);
  }
  reduction.prepare(buffer.mine().first(bytes));
  const uint64_t turn = arena.begin_turns(1);
  arena.raise(ArenaStage::kFilled, turn);
  HVD_TRY(arena.wait_all(ArenaStage::kFilled, turn, deadline));
  const Slices slices(bytes, arena.size());
  const size_t end = slices.begin(arena.rank() + 1);
  for (size_t begin = slices.begin(arena.rank()); begin < end; begin += kBlock) {
    const size_t length = std::min(kBlock, end - begin);
    const std::byte* inputs[Arena::kMostRanks];
    for (int rank = 0; rank < arena.size(); ++rank) inputs[rank] = buffer.part(rank).data() + begin;
    const Bytes block = buffer.mine().subspan(begin, length);
    reduction.combine_all(block, std::span(inputs, arena.size()));
    reduction.finish(block);
    for (int rank = 0; rank < arena.size(); ++rank) {
      if (rank == arena.rank()) continue;
      copy_bytes(buffer.part(rank).data() + begin, block.data(), length);
    }
  }
  arena.raise(ArenaStage::kReduced, turn);
  return arena.wait_all(ArenaStage::kReduced, turn, deadline);
}

}  // namespace hvd
