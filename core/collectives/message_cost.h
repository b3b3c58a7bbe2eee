// SPDX-License-Identifier: Apache-2.0
// message_cost(): the cost of one message, latency + bytes, by which allgather, broadcast and
// reducescatter choose their algorithm. Allreduce, whose choice matters most, has a finer model in
// microseconds (select.h), which calibrate.h can measure.
//
// Only the ratio of latency and bandwidth matters for a choice, so costs are in bytes: a latency
// costs the bytes that the link could have carried in that time. Measured latency times bandwidth
// is about 7 us times 2.5 GB/s for TCP between hosts, and 0.3 us times 10 GB/s (a core for each
// rank) up to 3 us times 5 GB/s (without) through shared memory. These have the same order of
// magnitude, so one figure serves every link.
//
// Costs are integers, so that all ranks choose alike whatever their processor.
#pragma once

#include <bit>
#include <cstddef>

namespace hvd {

// About 7 us times 2.5 GB/s.
inline constexpr size_t kLatencyBytes = 16 << 10;

// Segment size of algorithms that forward data while it still arrives. At 10 Gbit/s 64 KiB lose 14
// percentage points of bandwidth to overhead; 1 MiB loses two points and makes the pipeline longer.
inline constexpr size_t kSegmentBytes = 256 << 10;

constexpr size_t message_cost(size_t bytes) { return kLatencyBytes + bytes; }

// ceil(log2(ranks)): the rounds after which all ranks have a message when the number of ranks that
// have it doubles in every round.
constexpr int doublings(int ranks) {
  return ranks <= 1 ? 0 : std::bit_width(static_cast<unsigned>(ranks - 1));
}

}  // namespace hvd
