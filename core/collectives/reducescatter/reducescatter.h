// SPDX-License-Identifier: Apache-2.0
// Reducescatter: the ranks' inputs are reduced and every rank gets its part of the result.
//
// In all functions: `in` is this rank's input, the same size on every rank, and stays unchanged. It
// is divided into one part per rank, in rank order, of bytes_of[r] bytes (whole elements, zero
// allowed). `out` gets the part of this rank and is apart from `in`.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/reduction.h"

namespace hvd {

// How many of `rows` rows rank `rank` gets: the remainder goes to the first ranks.
constexpr size_t rows_of(size_t rows, int rank, int ranks) {
  const auto count = static_cast<size_t>(ranks);
  return rows / count + (static_cast<size_t>(rank) < rows % count ? 1 : 0);
}

// `bytes_of` for rows of `row_bytes` bytes.
std::vector<size_t> row_parts(size_t rows, size_t row_bytes, int ranks);

// Every rank receives its part from every other and combines all of them at once, in rank order
// and with one rounding: the bits do not depend on where an element lies or who owns it.
Status pairwise_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                              std::span<const size_t> bytes_of, const Reduction& reduction);

// A part travels once round the ring and gains one rank's values per hop, so that each link
// between hosts carries it once. Order and rounding depend on the owner of a part.
Status ring_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                          std::span<const size_t> bytes_of, const Reduction& reduction);

enum class ReducescatterAlgorithm { kPairwise, kRing };
ReducescatterAlgorithm choose_reducescatter(size_t bytes, const Topology& topology,
                                            bool deterministic);

// With the algorithm that costs least, or pairwise when the options ask for
// `deterministic`.
Status reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                     std::span<const size_t> bytes_of, const Reduction& reduction);

}  // namespace hvd
