#include "collectives/shared_memory.h"

#include <algorithm>
#include <span>

#include "collectives/slices.h"

namespace hvd {
namespace {

// A result is stored twice, privately and for the peers. In blocks of this size the second copy is
// read from the first-level cache.
constexpr size_t kBlock = 8 * 1024;

// Measured on two cores: everybody adds everything up to here, which takes one round of marks;
// above, slices take two rounds but each rank adds only its share.
size_t one_phase_limit(int ranks) { return ranks == 2 ? 8 * 1024 : 16 * 1024; }

// Chunks of 64 KiB fill the pipeline of a short message; 256 KiB cost the fewest rounds of marks,
// each of which is a context switch per rank once ranks outnumber cores.
size_t chunk_bytes_for(size_t bytes, size_t slot_bytes) {
  const size_t best = bytes <= 256 * 1024 ? 64 * 1024 : 256 * 1024;
  return std::min(best, slot_bytes);
}

// One phase: copy the input into the own slot, then add all slots into the private buffer.
Status one_phase(Arena& arena, Bytes data, const Reduction& reduction, Deadline deadline) {
  const int me = arena.rank();
  const uint64_t turn = arena.begin_turns(1);
  HVD_TRY(arena.claim(turn, deadline));
  copy_bytes(arena.slot(me, turn), data.data(), data.size());
  arena.raise(Mark::kFilled, turn);
  HVD_TRY(arena.wait_all(Mark::kFilled, turn, deadline));
  const std::byte* inputs[Arena::kMostRanks];
  for (int rank = 0; rank < arena.size(); ++rank) {
    inputs[rank] = rank == me ? data.data() : arena.slot(rank, turn);
  }
  reduction.combine_all(data, std::span(inputs, arena.size()));
  reduction.finish(data);
  return Status::ok();
}

// Two phases in a pipeline of chunks. In each chunk rank r owns slice r: it reads its own input
// from its private buffer and the others' from their slots, and stores the result in its private
// buffer and over the input of the next rank, whose slot is where everybody fetches it. A line is
// thus read and then overwritten by the same core, which costs half of what a separate result area
// does, and a quarter when the cores are far apart.
class Pipeline {
 public:
  Pipeline(Arena& arena, Bytes data, const Reduction& reduction, Deadline deadline)
      : arena_(arena),
        data_(data),
        reduction_(reduction),
        deadline_(deadline),
        chunk_bytes_(chunk_bytes_for(data.size(), arena.slot_bytes())),
        chunks_((data.size() + chunk_bytes_ - 1) / chunk_bytes_),
        first_turn_(arena.begin_turns(chunks_)) {}

  Status run() {
    HVD_TRY(fill(0));
    for (size_t chunk = 0; chunk < chunks_; ++chunk) {
      if (chunk + 1 < chunks_) HVD_TRY(fill(chunk + 1));
      HVD_TRY(reduce(chunk));
      if (chunk > 0) HVD_TRY(drain(chunk - 1));
    }
    return drain(chunks_ - 1);
  }

 private:
  Bytes chunk(size_t index) const {
    const size_t begin = index * chunk_bytes_;
    return data_.subspan(begin, std::min(chunk_bytes_, data_.size() - begin));
  }
  int next(int rank) const { return rank + 1 == arena_.size() ? 0 : rank + 1; }

  // Offers this rank's input to the owners of the other slices.
  Status fill(size_t index) {
    const uint64_t turn = first_turn_ + index;
    const Bytes input = chunk(index);
    const Slices slices(input.size(), arena_.size());
    const size_t own_begin = slices.begin(arena_.rank());
    const size_t own_end = slices.begin(arena_.rank() + 1);
    HVD_TRY(arena_.claim(turn, deadline_));
    std::byte* slot = arena_.slot(arena_.rank(), turn);
    copy_bytes(slot, input.data(), own_begin);
    copy_bytes(slot + own_end, input.data() + own_end, input.size() - own_end);
    arena_.raise(Mark::kFilled, turn);
    return Status::ok();
  }

  // Combines the own slice of all ranks.
  Status reduce(size_t index) {
    const uint64_t turn = first_turn_ + index;
    const int me = arena_.rank();
    const Slices slices(chunk(index).size(), arena_.size());
    const Bytes own = slices.of(chunk(index), me);
    HVD_TRY(arena_.wait_all(Mark::kFilled, turn, deadline_));
    for (size_t begin = 0; begin < own.size(); begin += kBlock) {
      const Bytes block = own.subspan(begin, std::min(kBlock, own.size() - begin));
      const size_t in_slot = slices.begin(me) + begin;
      const std::byte* inputs[Arena::kMostRanks];
      for (int rank = 0; rank < arena_.size(); ++rank) {
        inputs[rank] = rank == me ? block.data() : arena_.slot(rank, turn) + in_slot;
      }
      reduction_.combine_all(block, std::span(inputs, arena_.size()));
      reduction_.finish(block);
      copy_bytes(arena_.slot(next(me), turn) + in_slot, block.data(), block.size());
    }
    arena_.raise(Mark::kReduced, turn);
    return Status::ok();
  }

  // Fetches the slices that the other ranks have finished.
  Status drain(size_t index) {
    const uint64_t turn = first_turn_ + index;
    const Slices slices(chunk(index).size(), arena_.size());
    for (int owner = next(arena_.rank()); owner != arena_.rank(); owner = next(owner)) {
      HVD_TRY(arena_.wait(owner, Mark::kReduced, turn, deadline_));
      const Bytes result = slices.of(chunk(index), owner);
      copy_bytes(result.data(), arena_.slot(next(owner), turn) + slices.begin(owner),
                 result.size());
    }
    return Status::ok();
  }

  Arena& arena_;
  const Bytes data_;
  const Reduction& reduction_;
  const Deadline deadline_;
  const size_t chunk_bytes_;
  const size_t chunks_;
  const uint64_t first_turn_;
};

}  // namespace

Status shared_memory_allreduce(Arena& arena, Bytes data, const Reduction& reduction,
                               Deadline deadline) {
  reduction.prepare(data);
  if (data.empty()) return Status::ok();
  if (arena.size() == 1) {
    reduction.finish(data);
    return Status::ok();
  }
  if (data.size() <= one_phase_limit(arena.size())) {
    return one_phase(arena, data, reduction, deadline);
  }
  return Pipeline(arena, data, reduction, deadline).run();
}

Status shared_buffer_allreduce(Arena& arena, const SharedBuffer& buffer, size_t bytes,
                               const Reduction& reduction, Deadline deadline) {
  HVD_CHECK(bytes <= buffer.mine().size());
  if (bytes <= one_phase_limit(arena.size())) {
    return shared_memory_allreduce(arena, buffer.mine().first(bytes), reduction, deadline);
  }
  reduction.prepare(buffer.mine().first(bytes));
  const uint64_t turn = arena.begin_turns(1);
  arena.raise(Mark::kFilled, turn);
  HVD_TRY(arena.wait_all(Mark::kFilled, turn, deadline));
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
  arena.raise(Mark::kReduced, turn);
  return arena.wait_all(Mark::kReduced, turn, deadline);
}

}  // namespace hvd
