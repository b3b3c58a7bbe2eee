// SPDX-License-Identifier: Apache-2.0
// Reducescatter: the inputs of the ranks are reduced and every rank gets its part of the result.
//
// In all functions: `in` is this rank's input, of the same size on every rank, and stays unchanged.
// It consists of one part per rank, in rank order, of bytes_of[r] bytes (whole elements, may be 0).
// `out` gets the part of this rank and does not overlap `in`. Below, n is the number of ranks and B
// the size of `in`.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/reduction.h"

namespace hvd {

// Number of rows that rank `rank` gets of `rows` rows: the first ranks get the remainder, one row
// each.
constexpr size_t rows_of(size_t rows, int rank, int ranks) {
  const auto count = static_cast<size_t>(ranks);
  return rows / count + (static_cast<size_t>(rank) < rows % count ? 1 : 0);
}

// `bytes_of` for `rows` rows of `row_bytes` bytes.
std::vector<size_t> row_parts(size_t rows, size_t row_bytes, int ranks);

// Pairwise: every rank receives its part from every other rank and combines all of them at once, in
// rank order and with one rounding. So the bits do not depend on the place of an element nor on the
// owner. (n-1)/n · B bytes and one latency per segment, because all messages are in flight at once.
Status pairwise_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                              std::span<const size_t> bytes_of, const Reduction& reduction);

// Ring: a part travels once round the ring; each rank adds its values. (n-1)/n · B bytes and n - 1
// latencies; each link between hosts carries a part once. B bytes of scratch. Order and rounding
// depend on the owner of a part, so it is not deterministic.
Status ring_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                          std::span<const size_t> bytes_of, const Reduction& reduction);

enum class ReducescatterAlgorithm { kPairwise, kRing };
// For jobs that cannot use shared memory among all ranks. Equal on all ranks.
ReducescatterAlgorithm choose_reducescatter(size_t bytes, const Topology& topology,
                                            bool deterministic);

// Through shared memory if all ranks are on one host and have it, else with choose_reducescatter()
// and `deterministic` of the context's options.
Status reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                     std::span<const size_t> bytes_of, const Reduction& reduction);

}  // namespace hvd
