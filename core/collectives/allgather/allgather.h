// SPDX-License-Identifier: Apache-2.0
// Allgather: every rank gets what all ranks have, side by side in rank order. Ranks may have
// different amounts, also nothing; every rank knows how much each has.
//
// In all functions: `mine` are this rank's bytes_of[rank()] bytes; `out` has room for the sum of
// `bytes_of` and is apart from `mine`, unless `mine` already lies where it belongs in `out`.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// log2(n) rounds in which what a rank holds doubles; one contiguous message per round, and one
// copy of everything at the end.
Status bruck_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                       std::span<const size_t> bytes_of);

// Blocks travel once round the ring, straight into place, forwarded in segments as they arrive so
// that one large block among small ones does not stop the others. n - 1 latencies.
Status ring_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                      std::span<const size_t> bytes_of);

// The leader of each host collects its ranks' blocks, leaders exchange, leaders give everything to
// their ranks: the latency between hosts is paid log2(hosts) times.
Status two_level_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                           std::span<const size_t> bytes_of);

enum class AllgatherAlgorithm { kBruck, kRing, kTwoLevel };
AllgatherAlgorithm choose_allgather(std::span<const size_t> bytes_of, const Topology& topology);

// With the algorithm that costs least.
Status allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                 std::span<const size_t> bytes_of);

}  // namespace hvd
