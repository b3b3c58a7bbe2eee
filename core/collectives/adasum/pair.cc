// SPDX-License-Identifier: Apache-2.0
#include "collectives/adasum/pair.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace hvd {
namespace {

// 1 - dot / 2|v|². 1 for a vector that is almost zero, where the quotient is meaningless and may
// overflow.
double coefficient(double dot, double squared) {
  static const double least = std::sqrt(DBL_MIN);
  return squared < least ? 1.0 : 1.0 - dot / (2.0 * squared);
}

}  // namespace

template <typename Visit>
void AdasumPair::for_each_tensor(VectorPart piece, Visit visit) const {
  size_t begin = 0;  // of the tensor in the fused vector
  for (size_t tensor = 0; tensor < counts_.size(); ++tensor) {
    const size_t end = begin + counts_[tensor];
    const size_t from = std::max(begin, piece.first);
    const size_t to = std::min(end, piece.first + piece.count);
    if (from < to) visit(tensor, (from - piece.first) * size_of(dtype_), to - from);
    begin = end;
  }
}

void AdasumPair::measure(VectorPart piece, const std::byte* a, const std::byte* b,
                         std::span<kernels::Products> of_tensor) const {
  std::fill(of_tensor.begin(), of_tensor.end(), kernels::Products{});
  for_each_tensor(piece, [&](size_t tensor, size_t offset, size_t count) {
    of_tensor[tensor] = kernels::products(dtype_, a + offset, b + offset, count);
  });
}

void AdasumPair::blend(VectorPart piece, std::byte* out, const std::byte* a, const std::byte* b,
                       std::span<const kernels::Products> of_tensor) const {
  for_each_tensor(piece, [&](size_t tensor, size_t offset, size_t count) {
    const kernels::Products& sums = of_tensor[tensor];
    kernels::blend(dtype_, out + offset, a + offset, coefficient(sums.dot, sums.a_squared),
                   b + offset, coefficient(sums.dot, sums.b_squared), count);
  });
}

}  // namespace hvd
