// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/tunables.h"

#include <fmt/format.h>

#include <bit>

namespace hvd {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 50;  // as base/config.cc has it
constexpr auto kLastAlgorithm = static_cast<uint8_t>(AllreduceAlgorithm::kTwoLevel);
constexpr double kLongestMs = 100.0 * 365 * 86400 * 1e3;  // a century

}  // namespace

Result<Tunables> tunables_from(const Config& config) {
  Tunables tunables;
  tunables.fusion_threshold = config.fusion_threshold;
  tunables.cycle_time_ms = config.cycle_time.count();
  if (!config.allreduce_algorithm.empty()) {
    HVD_TRY_ASSIGN(tunables.algorithm, parse_allreduce_algorithm(config.allreduce_algorithm));
  }
  tunables.hierarchical_allreduce = config.hierarchical_allreduce;
  tunables.hierarchical_allgather = config.hierarchical_allgather;
  tunables.cache_enabled = config.cache_capacity > 0;
  return tunables;
}

ByteBuffer encode(const Tunables& tunables) {
  return Encoder()
      .put(tunables.fusion_threshold)
      .put(std::bit_cast<uint64_t>(tunables.cycle_time_ms))
      .put(static_cast<uint8_t>(tunables.algorithm))
      .put(static_cast<uint64_t>(tunables.chunk_bytes))
      .put(tunables.hierarchical_allreduce)
      .put(tunables.hierarchical_allgather)
      .put(tunables.cache_enabled)
      .take();
}

Result<Tunables> decode_tunables(ConstBytes bytes) {
  Decoder decoder(bytes);
  Tunables tunables;
  uint64_t cycle_time = 0;
  uint8_t algorithm = 0;
  uint64_t chunk_bytes = 0;
  HVD_TRY(decoder.get(tunables.fusion_threshold));
  HVD_TRY(decoder.get(cycle_time));
  HVD_TRY(decoder.get(algorithm));
  HVD_TRY(decoder.get(chunk_bytes));
  HVD_TRY(decoder.get(tunables.hierarchical_allreduce));
  HVD_TRY(decoder.get(tunables.hierarchical_allgather));
  HVD_TRY(decoder.get(tunables.cache_enabled));
  HVD_TRY(decoder.finish());

  tunables.cycle_time_ms = std::bit_cast<double>(cycle_time);
  tunables.algorithm = static_cast<AllreduceAlgorithm>(algorithm);
  tunables.chunk_bytes = chunk_bytes;
  const bool bytes_are_sane = tunables.fusion_threshold >= 0 &&
                              tunables.fusion_threshold <= kMostBytes && chunk_bytes <= kMostBytes;
  // This comparison is false for NaN as well.
  const bool time_is_sane = tunables.cycle_time_ms >= 0 && tunables.cycle_time_ms <= kLongestMs;
  if (!bytes_are_sane || !time_is_sane || algorithm > kLastAlgorithm) {
    return invalid_argument(fmt::format(
        "malformed record: settings with fusion threshold {}, cycle time {} ms, allreduce "
        "algorithm number {}, chunk of {} bytes",
        tunables.fusion_threshold, tunables.cycle_time_ms, algorithm, chunk_bytes));
  }
  return tunables;
}

}  // namespace hvd
