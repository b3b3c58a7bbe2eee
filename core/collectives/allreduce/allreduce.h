// SPDX-License-Identifier: Apache-2.0
// Allreduce: every rank ends with the reduction of all ranks' data, in place. All ranks call with
// equal sizes and equal reductions; a failure leaves `data` with any content.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/pieces.h"
#include "collectives/reduction.h"
#include "collectives/select.h"

namespace hvd {

// Any number of ranks. The first and the last give the same bits for the same values, wherever an
// element lies; a ring does not.
Status recursive_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                    const Reduction& reduction);
Status ring_allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction);
Status halving_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                  const Reduction& reduction);

// Needs Transport::hosts_share_memory(). Position-independent when `options` ask for it.
Status two_level_allreduce(const CollectiveContext& context, Bytes data,
                           const Reduction& reduction);

// What `algorithm` can be below, for AllreduceSelector.
std::span<const AllreduceAlgorithm> offered_allreduce_algorithms();

// With one algorithm, which must be possible on this transport. Callers in a hurry keep a selector
// and come here.
Status run_allreduce(const CollectiveContext& context, AllreduceAlgorithm algorithm, Bytes data,
                     const Reduction& reduction);

// The same for memory in pieces, from `in` to `out` of each; all ranks have equally much in total.
// Through shared memory the pieces are read and written where they lie; other algorithms run in the
// output of a single piece, or on several packed side by side in `fusion`. Where pieces lie does
// not show in the bits, unless `algorithm` lets the place of an element show.
Status allreduce_pieces(const CollectiveContext& context, AllreduceAlgorithm algorithm,
                        std::span<const Piece> pieces, const Reduction& reduction, Scratch& fusion);

// With the algorithm that the options name or the model favours.
Status allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction);

}  // namespace hvd
