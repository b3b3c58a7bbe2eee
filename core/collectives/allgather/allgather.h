// SPDX-License-Identifier: Apache-2.0
// Allgather: every rank gets the blocks of all ranks, one after the other in rank order. Blocks may
// differ in size and may be empty; every rank knows all sizes.
//
// In all functions: `mine` is this rank's block of bytes_of[rank()] bytes. `out` has room for the
// sum of `bytes_of`. `mine` is at its own place in `out` or does not overlap `out`. Below, n is the
// number of ranks and B the size of `out`.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"

namespace hvd {

// Bruck: ceil(log2(n)) rounds, in each of which the number of blocks that a rank holds doubles. One
// contiguous message per round, (n-1)/n · B bytes in all, one copy of B at the end, and B bytes of
// scratch. The fewest latencies; for small B. With one large block among small ones the busiest
// rank sends the large one in every round, so it stops paying early.
Status bruck_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                       std::span<const size_t> bytes_of);

// Ring: every block travels once round the ring, directly into its place in `out`. (n-1)/n · B
// bytes, n - 1 latencies, no scratch; for large B. Blocks are forwarded in segments as
// they arrive, so that one large block does not delay the small ones. Each link between hosts
// carries every block once.
Status ring_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                      std::span<const size_t> bytes_of);

// Two levels: the leader of each host collects the blocks of its ranks, the leaders run an
// allgather, and each leader broadcasts everything within its host. Messages between hosts cost
// log2(hosts) latencies instead of log2(n); for small B and several ranks per host. Large B takes
// the ring, which also crosses each link once and needs no second pass inside the host.
Status two_level_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                           std::span<const size_t> bytes_of);

enum class AllgatherAlgorithm { kBruck, kRing, kTwoLevel };
// For jobs that cannot use shared memory among all ranks. Equal on all ranks.
AllgatherAlgorithm choose_allgather(std::span<const size_t> bytes_of, const Topology& topology);

// Through shared memory if all ranks are on one host and have it, else with choose_allgather().
Status allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                 std::span<const size_t> bytes_of);

}  // namespace hvd
