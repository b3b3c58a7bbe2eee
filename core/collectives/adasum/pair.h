// SPDX-License-Identifier: Apache-2.0
// Adasum of one pair of vectors that hold several tensors side by side, or of a piece of them.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"
#include "collectives/kernels/kernels.h"

namespace hvd {

// Elements [first, first + count) of the fused vector.
struct VectorPart {
  size_t first = 0;
  size_t count = 0;
};

class AdasumPair {
 public:
  AdasumPair(DType dtype, std::span<const size_t> counts) : dtype_(dtype), counts_(counts) {}

  // The products of `piece` alone, one entry per tensor; adding them up over all pieces gives those
  // of the whole. `a` and `b` hold just the piece.
  void measure(VectorPart piece, const std::byte* a, const std::byte* b,
               std::span<kernels::Products> of_tensor) const;
  // out = adasum(a, b) in this piece, given the products of whole tensors. `out` may be `a` or `b`.
  void blend(VectorPart piece, std::byte* out, const std::byte* a, const std::byte* b,
             std::span<const kernels::Products> of_tensor) const;

 private:
  // Calls visit(tensor, byte offset in the piece, elements) for what each tensor has in the piece.
  template <typename Visit>
  void for_each_tensor(VectorPart piece, Visit visit) const;

  const DType dtype_;
  const std::span<const size_t> counts_;
};

}  // namespace hvd
