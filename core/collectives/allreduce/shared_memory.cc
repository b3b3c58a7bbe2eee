// SPDX-License-Identifier: Apache-2.0
// Allreduce through the arena, for n ranks of one host and B bytes (in all pieces together).
//
// A round: every rank raises a progress word and waits for the same word of its peers.
//
// Up to one_phase_limit() there is one phase: every rank copies its input into its slot and then
// combines the slots of all ranks. It needs one round, but every rank adds all n · B bytes.
//
// Above that limit there are two phases, in a pipeline of chunks. In every chunk rank r owns slice
// r, which is 1/n of the chunk.
//   fill    copies this rank's input for the slices of the other ranks into its slot
//   reduce  combines this rank's slice of the inputs of all ranks: 1/n of the additions
//   drain   copies the finished slices of the other ranks to the output
// A chunk needs two rounds. All chunks together copy 2 (n-1)/n · B bytes, and each rank stores its
// results, B/n bytes, twice. A rank fills chunk i + 1, reduces chunk i and drains chunk i - 1, in
// this order. So its peers have time to raise the words that it waits for next.
#include "collectives/shared_memory.h"

#include <algorithm>
#include <span>

#include "collectives/blocks.h"
#include "collectives/slices.h"

namespace hvd {
namespace {

// A result is stored twice: in the output and, for the peers, in a slot. In blocks of this size the
// second store reads its source from the first-level cache.
constexpr size_t kBlock = 8 * 1024;

// The largest one_phase_limit().
constexpr size_t kMostInOnePhase = 16 * 1024;

// Chunks of 64 KiB divide a short message into enough chunks for the pipeline. Chunks of 256 KiB
// need the fewest rounds; each round costs a context switch per rank when there are more ranks than
// cores. `wanted` is the option chunk_bytes; 0 means the measured best.
size_t chunk_bytes_for(size_t bytes, size_t slot_bytes, size_t wanted) {
  const size_t best = bytes <= 256 * 1024 ? 64 * 1024 : 256 * 1024;
  // Whole cache lines, which are whole elements too.
  return std::min(wanted == 0 ? best : round_up(wanted, 64), slot_bytes);
}

// Combines the slots of the peers with this rank's input in private memory. Reading that input from
// this rank's slot, which the peers read as well, took 40 ns more.
Status one_phase(Arena& arena, const Piece& whole, const Reduction& reduction, Deadline deadline) {
  const int me = arena.rank();
  const uint64_t turn = arena.begin_turns(1);
  HVD_TRY(arena.claim(turn, deadline));
  copy_bytes(arena.slot(me, turn), whole.in, whole.bytes);
  arena.raise(ArenaStage::kFilled, turn);
  HVD_TRY(arena.wait_all(ArenaStage::kFilled, turn, deadline));
  const std::byte* inputs[Arena::kMostRanks];
  for (int rank = 0; rank < arena.size(); ++rank) {
    inputs[rank] = rank == me ? whole.in : arena.slot(rank, turn);
  }
  const Bytes out(whole.out, whole.bytes);
  reduction.combine_all(out, std::span(inputs, arena.size()));
  reduction.finish(out);
  return Status::ok();
}

// A buffer in the first-level cache. It serves input that is in several pieces: pieces of a few
// elements, combined one by one, would not fill a vector. It also serves input that has to be
// scaled, because the caller's input must not change. The input is gathered here and becomes the
// result in place, which is then copied to the outputs.
template <size_t kBytes>
struct Stage {
  alignas(64) std::byte bytes[kBytes];

  Piece gather(const Pieces& pieces, size_t offset, size_t length, const Reduction& reduction) {
    pieces.copy_from(offset, bytes, length);
    reduction.prepare({bytes, length});
    return {bytes, bytes, length};
  }
};

Status staged_one_phase(Arena& arena, const Pieces& pieces, const Reduction& reduction,
                        Deadline deadline) {
  Stage<kMostInOnePhase> stage;
  const Piece whole = stage.gather(pieces, 0, pieces.total(), reduction);
  HVD_TRY(one_phase(arena, whole, reduction, deadline));
  pieces.copy_to(0, whole.out, whole.bytes);
  return Status::ok();
}

// The two phases. The owner of a slice reads its own input from private memory and the input of its
// peers from their slots. It stores the result twice: in its output, and in the slot of the next
// rank, over the input there. All peers read the result in that slot. So one core reads a cache
// line and then overwrites it. This costs half as much as a separate result area, and a quarter
// when the cores are far apart.
//
// The borders of chunks and slices do not depend on the borders of pieces: in the slots many small
// tensors are one large buffer.
class Pipeline {
 public:
  Pipeline(Arena& arena, const Pieces& pieces, const Reduction& reduction, Deadline deadline,
           size_t chunk_bytes)
      : arena_(arena),
        pieces_(pieces),
        reduction_(reduction),
        deadline_(deadline),
        chunk_bytes_(chunk_bytes_for(pieces.total(), arena.slot_bytes(), chunk_bytes)),
        chunks_((pieces.total() + chunk_bytes_ - 1) / chunk_bytes_),
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
  size_t begin(size_t chunk) const { return chunk * chunk_bytes_; }
  size_t bytes(size_t chunk) const {
    return std::min(chunk_bytes_, pieces_.total() - begin(chunk));
  }
  int next(int rank) const { return rank + 1 == arena_.size() ? 0 : rank + 1; }

  // Copies this rank's input for the slices of the other ranks into its slot.
  Status fill(size_t chunk) {
    const uint64_t turn = first_turn_ + chunk;
    const Slices slices(bytes(chunk), arena_.size());
    const size_t own_end = slices.begin(arena_.rank() + 1);
    HVD_TRY(arena_.claim(turn, deadline_));
    offer(chunk, 0, slices.begin(arena_.rank()));
    offer(chunk, own_end, bytes(chunk) - own_end);
    arena_.raise(ArenaStage::kFilled, turn);
    return Status::ok();
  }
  void offer(size_t chunk, size_t offset, size_t length) {
    const Bytes room(arena_.slot(arena_.rank(), first_turn_ + chunk) + offset, length);
    pieces_.copy_from(begin(chunk) + offset, room.data(), length);
    reduction_.prepare(room);
  }

  // Combines this rank's slice of the inputs of all ranks.
  Status reduce(size_t chunk) {
    const uint64_t turn = first_turn_ + chunk;
    const Slices slices(bytes(chunk), arena_.size());
    const size_t end = slices.begin(arena_.rank() + 1);
    HVD_TRY(arena_.wait_all(ArenaStage::kFilled, turn, deadline_));
    for (size_t offset = slices.begin(arena_.rank()); offset < end; offset += kBlock) {
      const size_t length = std::min(kBlock, end - offset);
      const Piece block = pieces_.at(begin(chunk) + offset, length);
      if (block.bytes == length && !reduction_.needs_prepare()) {
        reduce_block(turn, offset, block);
      } else {
        reduce_staged_block(chunk, offset, length);
      }
    }
    arena_.raise(ArenaStage::kReduced, turn);
    return Status::ok();
  }

  // `block` is this rank's input and output for the block at `offset` of the slots.
  void reduce_block(uint64_t turn, size_t offset, const Piece& block) {
    const Bytes result(block.out, block.bytes);
    const std::byte* inputs[Arena::kMostRanks];
    for (int rank = 0; rank < arena_.size(); ++rank) {
      inputs[rank] = rank == arena_.rank() ? block.in : arena_.slot(rank, turn) + offset;
    }
    reduction_.combine_all(result, std::span(inputs, arena_.size()));
    reduction_.finish(result);
    copy_bytes(arena_.slot(next(arena_.rank()), turn) + offset, result.data(), result.size());
  }

  void reduce_staged_block(size_t chunk, size_t offset, size_t length) {
    Stage<kBlock> stage;
    const Piece block = stage.gather(pieces_, begin(chunk) + offset, length, reduction_);
    reduce_block(first_turn_ + chunk, offset, block);
    pieces_.copy_to(begin(chunk) + offset, block.out, length);
  }

  // Copies the slices that the other ranks have finished to the output, nearest owner first.
  Status drain(size_t chunk) {
    const uint64_t turn = first_turn_ + chunk;
    const Slices slices(bytes(chunk), arena_.size());
    for (int owner = next(arena_.rank()); owner != arena_.rank(); owner = next(owner)) {
      HVD_TRY(arena_.wait(owner, ArenaStage::kReduced, turn, deadline_));
      const size_t offset = slices.begin(owner);
      pieces_.copy_to(begin(chunk) + offset, arena_.slot(next(owner), turn) + offset,
                      slices.size(owner));
    }
    return Status::ok();
  }

  Arena& arena_;
  const Pieces& pieces_;
  const Reduction& reduction_;
  const Deadline deadline_;
  const size_t chunk_bytes_;
  const size_t chunks_;
  const uint64_t first_turn_;
};

// With one rank there is nothing to combine.
void reduce_alone(const Pieces& pieces, const Reduction& reduction) {
  pieces.for_each(0, pieces.total(), [&](const Piece& piece) {
    const Bytes out(piece.out, piece.bytes);
    copy_bytes(out, ConstBytes(piece.in, piece.bytes));
    reduction.prepare(out);
    reduction.finish(out);
  });
}

}  // namespace

size_t one_phase_limit(int ranks) { return ranks == 2 ? 8 * 1024 : kMostInOnePhase; }

Status shared_memory_allreduce(Arena& arena, std::span<const Piece> list,
                               const Reduction& reduction, Deadline deadline, size_t chunk_bytes) {
  const Pieces pieces(list);
  if (pieces.total() == 0) return Status::ok();
  if (arena.size() == 1) {
    reduce_alone(pieces, reduction);
    return Status::ok();
  }
  if (pieces.total() <= one_phase_limit(arena.size())) {
    if (list.size() == 1 && !reduction.needs_prepare()) {
      return one_phase(arena, list[0], reduction, deadline);
    }
    return staged_one_phase(arena, pieces, reduction, deadline);
  }
  return Pipeline(arena, pieces, reduction, deadline, chunk_bytes).run();
}

Status shared_memory_allreduce(Arena& arena, Bytes data, const Reduction& reduction,
                               Deadline deadline) {
  const Piece whole{data.data(), data.data(), data.size()};
  return shared_memory_allreduce(arena, std::span(&whole, 1), reduction, deadline);
}

}  // namespace hvd
