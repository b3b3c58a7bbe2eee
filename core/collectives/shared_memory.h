// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks of one host, through the arena they share: ranks here are those of
// the arena. All ranks call the same ones in the same order with matching sizes.
//
// Reductions combine every element in the order of the ranks wherever it lies, so the bits of a
// result depend on the values alone.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/status.h"
#include "collectives/pieces.h"
#include "collectives/reduction.h"
#include "transport/shm/arena.h"
#include "transport/transport.h"

namespace hvd {

// The arena that all ranks of `transport` share, or null when there is none; the same answer on all
// ranks.
inline Arena* arena_of_all(Transport& transport) {
  return transport.topology().hosts() == 1 && transport.hosts_share_memory() ? transport.arena()
                                                                             : nullptr;
}

// Reduces the pieces as one buffer, whose size is the same on every rank; where pieces begin and
// end is each rank's own affair. Straight from the inputs through the slots to the outputs: a list
// of many costs no more passes over memory than one buffer.
// `chunk_bytes`, equal on all ranks, is the size of a step of the pipeline; 0: what is best here.
Status shared_memory_allreduce(Arena& arena, std::span<const Piece> pieces,
                               const Reduction& reduction, Deadline deadline,
                               size_t chunk_bytes = 0);
// The same for one buffer, in place.
Status shared_memory_allreduce(Arena& arena, Bytes data, const Reduction& reduction,
                               Deadline deadline);

// `in` consists of one part per rank, of `bytes_of` bytes each; `out` becomes this rank's part of
// the reduction. `out` may be this rank's part of `in` itself; the rest of `in` stays as it is.
Status shared_memory_reducescatter(Arena& arena, ConstBytes in, Bytes out,
                                   std::span<const size_t> bytes_of, const Reduction& reduction,
                                   Deadline deadline);

// `out` becomes the parts of all ranks, one after the other, of `bytes_of` bytes each. `mine` may
// lie at its place in `out` already.
Status shared_memory_allgather(Arena& arena, ConstBytes mine, Bytes out,
                               std::span<const size_t> bytes_of, Deadline deadline);

// `out` becomes the part for this rank of every rank's `in`. Part sizes are known to the two ranks
// they concern only.
Status shared_memory_alltoall(Arena& arena, ConstBytes in, std::span<const size_t> send_bytes,
                              Bytes out, std::span<const size_t> recv_bytes, Deadline deadline);

Status shared_memory_broadcast(Arena& arena, Bytes data, int root, Deadline deadline);

Status shared_memory_barrier(Arena& arena, Deadline deadline);

}  // namespace hvd
