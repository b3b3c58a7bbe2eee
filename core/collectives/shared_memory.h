// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks of one host, through the arena that they share
// (transport/shm/arena.h). They take the arena and a deadline instead of a CollectiveContext: they
// send no messages and need no scratch. Ranks here are ranks of the arena. All ranks call the same
// functions in the same order with matching sizes.
//
// The work is divided into turns. In every turn a rank has one slot of slot_bytes() bytes in the
// arena. The rank waits until the slot is free (claim), copies input into it, raises its progress
// word kFilled, waits for the same word of its peers and reads their slots. One round in which all
// ranks raise a word and wait for the words of their peers costs about 0.3 us when every rank has a
// core, and otherwise a context switch per rank. Every byte is copied twice: the owner of a slot
// copies it in, and each reader copies it out.
//
// Reductions combine every element in rank order wherever it is in the buffer, so the bits of a
// result depend on the values alone.
//
// Failures: kPeerLost when a rank of the host dies, kTimeout at the deadline; both end the
// communicator. The content of the output is then undefined.
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

// The arena that all ranks of `transport` share, or null when the job has several hosts or no
// shared memory. All ranks get the same answer. The transport owns the arena.
inline Arena* arena_of_all(Transport& transport) {
  return transport.topology().hosts() == 1 && transport.hosts_share_memory() ? transport.arena()
                                                                             : nullptr;
}

// Up to this number of bytes an allreduce works in one phase, which is quicker there, measured on
// two cores: every rank adds everything after one round. Above it two phases are quicker: they need
// two rounds, but each rank adds only its slice.
size_t one_phase_limit(int ranks);

// Reduces the pieces as one buffer. Its total size is the same on every rank; the sizes of single
// pieces may differ from rank to rank. Data moves from the inputs through the slots to the outputs,
// so many pieces need no more passes over memory than one buffer.
// `chunk_bytes`, equal on all ranks, is the size of a chunk of the pipeline. 0: the size that was
// measured to be best.
Status shared_memory_allreduce(Arena& arena, std::span<const Piece> pieces,
                               const Reduction& reduction, Deadline deadline,
                               size_t chunk_bytes = 0);
// The same for one buffer, in place, with the measured best chunk size.
Status shared_memory_allreduce(Arena& arena, Bytes data, const Reduction& reduction,
                               Deadline deadline);

// `in` consists of one part per rank, of bytes_of[r] bytes; `out` becomes this rank's part of the
// reduction. `out` may be this rank's part of `in`; the rest of `in` stays unchanged.
Status shared_memory_reducescatter(Arena& arena, ConstBytes in, Bytes out,
                                   std::span<const size_t> bytes_of, const Reduction& reduction,
                                   Deadline deadline);

// `out` becomes the parts of all ranks, one after the other, of bytes_of[r] bytes. `mine` may
// already be at its place in `out`.
Status shared_memory_allgather(Arena& arena, ConstBytes mine, Bytes out,
                               std::span<const size_t> bytes_of, Deadline deadline);

// `out` becomes the part for this rank of every rank's `in`. Only the sender and the receiver have
// to know the size of a part; all ranks agree on the largest one with an extra turn.
Status shared_memory_alltoall(Arena& arena, ConstBytes in, std::span<const size_t> send_bytes,
                              Bytes out, std::span<const size_t> recv_bytes, Deadline deadline);

// `data` of rank `root` becomes `data` of every rank. The sizes are equal.
Status shared_memory_broadcast(Arena& arena, Bytes data, int root, Deadline deadline);

// Returns when every rank has called it.
Status shared_memory_barrier(Arena& arena, Deadline deadline);

}  // namespace hvd
