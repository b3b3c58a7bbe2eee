// SPDX-License-Identifier: Apache-2.0
// What makes algorithms for 2^k ranks work with any number: each rank above the largest power of
// two gives its values to a rank below before the start and gets the result at the end. Between,
// it is idle, so this costs two more messages of the whole buffer.
#pragma once

#include <bit>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/reduction.h"

namespace hvd {

class Fold {
 public:
  Fold(int rank, int size)
      : rank_(rank), size_(size), ranks_(static_cast<int>(std::bit_floor(unsigned(size)))) {}

  // A power of two: ranks 0 … ranks() - 1 stay.
  int ranks() const { return ranks_; }
  bool stays() const { return rank_ < ranks_; }
  // The other rank of this one's fold, or -1 when it has none.
  int partner() const {
    if (!stays()) return rank_ - ranks_;
    return rank_ + ranks_ < size_ ? rank_ + ranks_ : -1;
  }

 private:
  int rank_;
  int size_;
  int ranks_;
};

// Before: the ranks that stay hold the values of their partners too.
Status fold_in(const CollectiveContext& context, const Fold& fold, Bytes data,
               const Reduction& reduction);
// After: every rank holds what the ranks that stay had; all sends are done.
Status fold_out(const CollectiveContext& context, const Fold& fold, Bytes data);

// mine = mine ∘ theirs, with the operand of the lower rank first: then both sides of an exchange
// get the same bits even where the order shows, in NaNs and in Min of 0 and -0.
void combine_by_rank(const Reduction& reduction, Bytes mine, ConstBytes theirs, bool theirs_first);

}  // namespace hvd
