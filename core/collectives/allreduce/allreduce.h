// SPDX-License-Identifier: Apache-2.0
// Allreduce: every rank gets the reduction of the data of all ranks, in place. All ranks call with
// equal sizes, reductions and options. `data` is a whole number of elements and aligned to them.
// After a failure its content is undefined. select.h compares what the algorithms cost; each .cc
// file explains its algorithm.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/pieces.h"
#include "collectives/reduction.h"
#include "collectives/select.h"

namespace hvd {

// For any number of ranks. recursive_doubling and halving_doubling give the same bits for the same
// values wherever an element is in the buffer; the ring does not.
Status recursive_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                    const Reduction& reduction);
Status ring_allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction);
Status halving_doubling_allreduce(const CollectiveContext& context, Bytes data,
                                  const Reduction& reduction);

// Needs Transport::hosts_share_memory(). The bits do not depend on the place of an element when the
// options ask for `deterministic`.
Status two_level_allreduce(const CollectiveContext& context, Bytes data,
                           const Reduction& reduction);

// The algorithms that run_allreduce() accepts: the candidates for AllreduceSelector.
std::span<const AllreduceAlgorithm> offered_allreduce_algorithms();

// Runs `algorithm`, which must be possible on this transport (AllreduceSelector checks that).
// kInvalidArgument for kAuto, and if the bytes are not a whole number of elements. A caller with
// many operations keeps an AllreduceSelector and calls this function.
Status run_allreduce(const CollectiveContext& context, AllreduceAlgorithm algorithm, Bytes data,
                     const Reduction& reduction);

// The same for memory in pieces, from `in` to `out` of each. The total size is equal on all ranks.
// Shared memory reads and writes the pieces in place. Other algorithms run in the output of a
// single piece, or pack several pieces into `fusion`, which must not be the context's scratch. The
// division into pieces does not change the bits, except with an algorithm whose bits depend on the
// place of an element.
Status allreduce_pieces(const CollectiveContext& context, AllreduceAlgorithm algorithm,
                        std::span<const Piece> pieces, const Reduction& reduction, Scratch& fusion);

// Runs the algorithm that the options name, or the quickest one by the model for kAuto. Makes a
// selector for each call.
Status allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction);

}  // namespace hvd
