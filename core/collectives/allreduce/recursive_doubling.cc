// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in round k every rank swaps everything it has with the rank at distance
// n/2, n/4, … 1 and adds. log2(n) rounds, the fewest there are, but each carries the whole buffer:
// for small messages.
//
// The far distance first, and operands in rank order, because halving_doubling.cc has to go that
// way: both then add every element in the same order, and in deterministic mode the choice between
// them, which depends on the size, does not show in the bits.
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
