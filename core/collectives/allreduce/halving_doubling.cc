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

Status add_pieces(const CollectiveContext& context, int partner, Bytes mine,
                  const Reduction& reduction) {
  size_t done = 0;
  const auto add = [&](ConstBytes piece) {
    combine_by_rank(reduction, mine.subspan(done, piece.size()), piece,
                    /*theirs_first=*/partner < context.rank());
    done += piece.size();
    return Status::ok();
  };
  return context.recv_pieces(partner, mine.size(), reduction.element_size(), add);
}

Status halve_and_double(const CollectiveContext& context, int ranks, Bytes data,
                        const Reduction& reduction) {
  const Chunks chunks(data.size(), ranks, reduction.element_size());
  const int rank = context.rank();
  for (int distance = ranks / 2; distance > 0; distance /= 2) {
    const int partner = rank ^ distance;
    const Bytes theirs = part_of(data, chunks, partner, distance);
    const Bytes mine = part_of(data, chunks, rank, distance);
    HVD_TRY(context.send(partner, theirs));
    HVD_TRY(add_pieces(context, partner, mine, reduction));
  }
  reduction.finish(chunks.of(data, rank));
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int partner = rank ^ distance;
    HVD_TRY(context.send(partner, part_of(data, chunks, rank, distance)));
    HVD_TRY(context.recv(partner, part_of(data, chunks, partner, distance)));
  }
  return Status::ok();
}

}  // namespace

Status halving_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                  const Reduction& reduction) {
  if (data.empty()) return Status::ok();
  reduction.prepare(data);
  const Fold fold(context.rank(), context.size());
  HVD_TRY(fold_in(context, fold, data, reduction));
  if (fold.stays()) HVD_TRY(halve_and_double(context, fold.ranks(), data, reduction));
  return fold_out(context, fold, data);
}

}  // namespace hvd
