// SPDX-License-Identifier: Apache-2.0
// Fold: makes an algorithm for 2^k ranks work with any number of ranks. With p the largest power of
// two that is not above n, each rank r >= p sends its values to rank r - p before the algorithm
// starts and receives the result at the end. It is idle in between. The fold adds two messages of
// the whole buffer, which makes the ring cheaper for large data (select.h).
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

  // p, a power of two: ranks 0 … p - 1 run the algorithm.
  int ranks() const { return ranks_; }
  bool stays() const { return rank_ < ranks_; }
  // The rank that this one exchanges with, or -1 when it has none.
  int partner() const {
    if (!stays()) return rank_ - ranks_;
    return rank_ + ranks_ < size_ ? rank_ + ranks_ : -1;
  }

 private:
  int rank_;
  int size_;
  int ranks_;
};

// Before the algorithm: the ranks that stay combine the values of their partners with their own.
Status fold_in(const CollectiveContext& context, const Fold& fold, Bytes data,
               const Reduction& reduction);
// After the algorithm: the ranks that stay send `data` to their partners. Flushes all sends.
Status fold_out(const CollectiveContext& context, const Fold& fold, Bytes data);

// mine = mine ∘ theirs, with the operand of the lower rank first. So both sides of an exchange get
// the same bits even where the order of operands matters: for NaNs and for Min of 0 and -0.
void combine_by_rank(const Reduction& reduction, Bytes mine, ConstBytes theirs, bool theirs_first);

}  // namespace hvd
