// SPDX-License-Identifier: Apache-2.0
// Halving-doubling (Rabenseifner), for p = 2^k ranks and a buffer of B bytes.
//
// Reduce-scatter, for `distance` = p/2, p/4, … 1: the buffer is cut into p chunks. Before the
// round, `rank` and its `partner` = rank XOR distance work on the same 2 · distance chunks. Each
// sends the half of the other (`theirs`) and adds what arrives to its own half (`mine`). After the
// last round a rank owns one complete chunk and finishes it.
//
// Allgather, for `distance` = 1, 2, … p/2: the partners exchange their parts, which double every
// round.
//
// Cost: 2 (p-1)/p · B bytes, as little as a ring, but 2 log2(p) messages in a row instead of the
// 2 (p-1) of a ring. A round starts only when the previous one is complete, whereas a ring streams:
// for large B the ring is quicker. An n that is not a power of two needs a fold (fold.h), which
// sends 2 B more, so that another algorithm is always quicker for large B.
//
// It needs no scratch, and no flush between the phases: a rank sends one half and adds to the other
// half. The allgather overwrites a half that was sent only with the result for this half. The
// partner cannot send this result before it has received the half.
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/fold.h"
#include "collectives/chunks.h"

namespace hvd {
namespace {

// The part of the buffer that `rank` works on after the round at `distance`: `distance` chunks,
// which it shares with distance - 1 other ranks.
Bytes part_of(Bytes data, const Chunks& chunks, int rank, int distance) {
  const int first = rank / distance * distance;
  return chunks.of(data, first, first + distance);
}

// Receives the partner's values for `mine` and adds them as they arrive.
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
