// SPDX-License-Identifier: Apache-2.0
// Adasum: adds gradients so that what two of them agree on counts once and what is orthogonal adds
// up. For two vectors
//   adasum(a, b) = (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b,
// and for n ranks the same over a tree of pairs. Equal vectors give that vector, orthogonal ones
// their sum. Not associative: the tree below is part of the definition.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// In place: data = postscale · adasum over ranks of (prescale · data), for each tensor on its own.
// `counts` are the elements of the tensors that stand side by side in `data`, equal on all ranks.
// Floating dtypes only (kInvalidArgument).
//
// The tree: with p the largest power of two that is not above n, rank r - p takes in rank r for
// each r >= p; then for L = 1, 2, 4, … below p the blocks of L ranks combine in pairs, the vector
// of the block with the lower ranks being `a`.
Status adasum(const CollectiveContext& context, Bytes data, std::span<const size_t> counts,
              DType dtype, double prescale, double postscale);

// The tree by vector halving and distance doubling, without the check of the dtype. At level L rank
// and rank XOR L hold the same piece of two vectors; each keeps half of the piece, of both vectors,
// so that all ranks go on working and 2(p-1)/p of the data are sent. What a tensor's dot product
// lacks is summed over the 2L ranks that hold the other pieces.
Status halving_doubling_adasum(const CollectiveContext& context, Bytes data,
                               std::span<const size_t> counts, DType dtype, double prescale,
                               double postscale);

}  // namespace hvd
