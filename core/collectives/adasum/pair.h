// SPDX-License-Identifier: Apache-2.0
// AdasumPair: Adasum of one pair of fused vectors, which hold several tensors one after the other,
// or of a piece of such vectors.
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

// Stateless except for the layout of the vector. `counts` must outlive it.
class AdasumPair {
 public:
  AdasumPair(DType dtype, std::span<const size_t> counts) : dtype_(dtype), counts_(counts) {}

  // The products of `piece` alone, one entry per tensor. Their sum over all pieces of a vector
  // gives the products of the whole. `a` and `b` point to the piece, not to the vector.
  void measure(VectorPart piece, const std::byte* a, const std::byte* b,
               std::span<kernels::Products> of_tensor) const;
  // out = adasum(a, b) for this piece, from the products of whole tensors. `out` may be `a` or `b`.
  void blend(VectorPart piece, std::byte* out, const std::byte* a, const std::byte* b,
             std::span<const kernels::Products> of_tensor) const;

 private:
  // Calls visit(tensor, byte offset in the piece, elements) for each tensor with elements in
  // `piece`.
  template <typename Visit>
  void for_each_tensor(VectorPart piece, Visit visit) const;

  const DType dtype_;
  const std::span<const size_t> counts_;
};

}  // namespace hvd
