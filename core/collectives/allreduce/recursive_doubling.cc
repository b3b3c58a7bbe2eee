// SPDX-License-Identifier: Apache-2.0
// Recursive doubling, for p = 2^k ranks and a buffer of B bytes: for `distance` = p/2, p/4, … 1
// every rank exchanges its whole buffer with `partner` = rank XOR distance and adds. After round i
// it holds the sum of 2^i ranks.
//
// Cost: log2(p) messages in a row, the fewest possible, of B bytes each, and B bytes of scratch. It
// is the slower algorithm when log2(p) · B bytes take longer than the extra latencies of
// halving-doubling or the ring, from 4 to 120 KB on (table in select.h). Other n need a fold
// (fold.h).
//
// The largest distance comes first and the operands are in rank order, because halving_doubling.cc
// needs that order. So both add every element in the same order, and in deterministic mode the
// choice between them, which depends on the size, does not change the bits.
#include "collectives/allreduce/allreduce.h"
#include "collectives/allreduce/fold.h"

namespace hvd {

Status recursive_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                    const Reduction& reduction) {
  if (data.empty()) return Status::ok();
  reduction.prepare(data);
  const Fold fold(context.rank(), context.size());
  HVD_TRY(fold_in(context, fold, data, reduction));
  if (fold.stays()) {
    const Bytes theirs = context.scratch.get(data.size());
    for (int distance = fold.ranks() / 2; distance > 0; distance /= 2) {
      const int partner = context.rank() ^ distance;
      HVD_TRY(context.exchange(partner, data, partner, theirs));
      combine_by_rank(reduction, data, theirs, /*theirs_first=*/partner < context.rank());
    }
    reduction.finish(data);
  }
  return fold_out(context, fold, data);
}

}  // namespace hvd
