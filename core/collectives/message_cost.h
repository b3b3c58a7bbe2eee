// SPDX-License-Identifier: Apache-2.0
// What a message costs, for choosing between algorithms: latency plus bytes over bandwidth.
//
// Only the ratio of the two matters for a choice, so costs are counted in bytes: a latency costs
// what the link could have carried meanwhile. Measured latency times bandwidth is about 7 us times
// 2.5 GB/s for TCP between hosts, and 0.3 us times 10 GB/s up to 3 us times 5 GB/s through shared
// memory with and without a core for each rank: of one size, so one figure serves every link.
// Integers, so that the choice is equal on all ranks whatever their processor.
#pragma once

#include <bit>
#include <cstddef>

namespace hvd {

inline constexpr size_t kLatencyBytes = 16 << 10;

// What is forwarded at once by algorithms that pass data on while it still arrives. At 10 Gbit/s
// 64 KiB loses 14 points of bandwidth to overhead, and 1 MiB two points and a longer pipeline.
inline constexpr size_t kSegmentBytes = 256 << 10;

constexpr size_t message_cost(size_t bytes) { return kLatencyBytes + bytes; }

// Rounds in which the number of ranks that know something can double until all do.
constexpr int doublings(int ranks) {
  return ranks <= 1 ? 0 : std::bit_width(static_cast<unsigned>(ranks - 1));
}

}  // namespace hvd
