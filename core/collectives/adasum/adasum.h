// SPDX-License-Identifier: Apache-2.0
// Adasum: adds gradients such that the components on which two of them agree count once and the
// orthogonal components add up. For two vectors
//
//   adasum(a, b) = (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b,
//
// and for n ranks the same over a tree of pairs. Equal vectors give that vector, orthogonal vectors
// their sum. The operation is not associative, so the tree below is part of the definition.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// In place: data = postscale · adasum over ranks of (prescale · data), for each tensor separately.
// `counts[t]` is the number of elements of tensor t; the tensors follow one another in `data`.
// `counts`, `dtype` and the factors are equal on all ranks. kInvalidArgument for a dtype that is
// not floating.
//
// The tree: p is the largest power of two that is not above n. For each r >= p, rank r - p combines
// its vector with that of rank r. Then, for L = 1, 2, 4, … below p, blocks of L ranks combine in
// pairs; `a` is the vector of the block with the lower ranks.
Status adasum(const CollectiveContext& context, Bytes data, std::span<const size_t> counts,
              DType dtype, double prescale, double postscale);

// The same without the check of the dtype, by vector halving and distance doubling. At level L,
// `rank` and `rank XOR L` hold the same piece of two vectors. Each keeps half of the piece, of both
// vectors, and sends the other half, so that all ranks work at every level. The three products of a
// tensor (a·b, a·a, b·b) are summed over the 2L ranks that hold the pieces of the same pair.
//
// Cost per rank, for B bytes, T tensors and p ranks: 2 (p-1)/p · B bytes of data, plus 24 T bytes
// in each of log2(p) (log2(p) + 1) / 2 exchanges of products; 2 log2(p) + log2(p) (log2(p) + 1) / 2
// messages in a row. The exchanges of products make it slower than an allreduce for small tensors.
// Ranks beyond p add two messages of B bytes. Scratch: B/2 bytes, or B on a rank with a partner
// beyond p.
Status halving_doubling_adasum(const CollectiveContext& context, Bytes data,
                               std::span<const size_t> counts, DType dtype, double prescale,
                               double postscale);

}  // namespace hvd
