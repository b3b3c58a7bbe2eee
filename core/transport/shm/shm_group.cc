// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_group.h"

#include <utility>

namespace hvd {
namespace {

// Byte offsets in the segment: the arena, then the control plane, then the pipes.
size_t control_offset(int ranks) { return round_up(Arena::bytes_needed(ranks), 64); }
size_t pipes_offset(int ranks) {
  return control_offset(ranks) + round_up(ControlMemory::bytes_needed(ranks), 64);
}

}  // namespace

size_t ShmGroup::bytes_needed(int ranks) {
  const auto pairs = static_cast<size_t>(ranks) * static_cast<size_t>(ranks);
  // In a memfd the pages of an unused pipe are never allocated, so it costs address space only. A
  // file in /dev/shm gets all of them at once, 2 MiB for four ranks, since it could run out later.
  return pipes_offset(ranks) + pairs * pipe_bytes(pipe_capacity(ranks));
}

ShmGroup::ShmGroup(std::unique_ptr<Segment> segment, int local_rank, std::vector<int> job_ranks,
                   LifelineHolder& lifelines, Health& health)
    : segment_(std::move(segment)),
      control_(segment_->memory().subspan(control_offset(static_cast<int>(job_ranks.size()))),
               static_cast<int>(job_ranks.size())) {
  const auto ranks = static_cast<int>(job_ranks.size());
  const Bytes memory = segment_->memory();
  HVD_CHECK(memory.size() >= bytes_needed(ranks));
  arena_ = std::make_unique<Arena>(memory.first(control_offset(ranks)), local_rank,
                                   std::move(job_ranks), lifelines, health);
  const size_t capacity = pipe_capacity(ranks);
  const auto pipe = [&](int from, int to) {
    const size_t index = static_cast<size_t>(from) * static_cast<size_t>(ranks) + to;
    return memory.subspan(pipes_offset(ranks) + index * pipe_bytes(capacity), pipe_bytes(capacity));
  };
  for (int peer = 0; peer < ranks; ++peer) {
    in_.push_back(std::make_unique<PipeIn>(pipe(peer, local_rank), capacity));
    out_.push_back(std::make_unique<PipeOut>(pipe(local_rank, peer), capacity));
  }
}

}  // namespace hvd
