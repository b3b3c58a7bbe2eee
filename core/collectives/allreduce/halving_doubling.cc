// SPDX-License-Identifier: Apache-2.0
// Halving and doubling (Rabenseifner): a reduce-scatter in which the part of the buffer that a
// rank works on halves every round, then an allgather in which it doubles again. As little data as
// a ring sends in 2 log2(n) rounds instead of 2(n-1), but a round begins only when the one before
// is complete, where a ring streams; and n that are no power of two cost a fold.
//
// No scratch: what a rank sends and what it adds to are different halves. A half that was sent is
// overwritten in the allgather by its own result, which the partner cannot send before it has the
// half.
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/fold.h"
#include "collectives/chunks.h"

namespace hvd {
namespace {

// The part of the buffer that `rank` works on after the round at `distance`: as many chunks, out of
// one per rank, as there are ranks that still share it.
Bytes part_of(Bytes data, const Chunks& chunks, int rank, int distance) {
  const int first = rank / distance * distance;
  return chunks.of(data, first, first + distance);
}

Status add_pieces(Transport& transport, int partner, Bytes mine, const Reduction& reduction,
                  Deadline deadline) {
  size_t done = 0;
  const auto add = [&](ConstBytes piece) {
    combine_by_rank(reduction, mine.subspan(done, piece.size()), piece,
                    /*theirs_first=*/partner < transport.rank());
    done += piece.size();
    return Status::ok();
  };
  return transport.recv_pieces(partner, mine.size(), reduction.element_size(), add, deadline);
}

Status halve_and_double(Transport& transport, int ranks, Bytes data, const Reduction& reduction,
                        Deadline deadline) {
  const Chunks chunks(data.size(), ranks, reduction.element_size());
  const int rank = transport.rank();
  for (int distance = ranks / 2; distance > 0; distance /= 2) {
    const int partner = rank ^ distance;
    const Bytes theirs = part_of(data, chunks, partner, distance);
    const Bytes mine = part_of(data, chunks, rank, distance);
    HVD_TRY(transport.send(partner, theirs, deadline));
    HVD_TRY(add_pieces(transport, partner, mine, reduction, deadline));
  }
  reduction.finish(chunks.of(data, rank));
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int partner = rank ^ distance;
    HVD_TRY(transport.send(partner, part_of(data, chunks, rank, distance), deadline));
    HVD_TRY(transport.recv(partner, part_of(data, chunks, partner, distance), deadline));
  }
  return Status::ok();
}

}  // namespace

Status halving_doubling_allreduce(Transport& transport, Bytes data, const Reduction& reduction,
                                  Deadline deadline) {
  if (data.empty()) return Status::ok();
  reduction.prepare(data);
  const Fold fold(transport.rank(), transport.size());
  HVD_TRY(fold_in(transport, fold, data, reduction, deadline));
  if (fold.stays()) HVD_TRY(halve_and_double(transport, fold.ranks(), data, reduction, deadline));
  return fold_out(transport, fold, data, deadline);
}

}  // namespace hvd
