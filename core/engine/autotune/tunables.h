// SPDX-License-Identifier: Apache-2.0
// The settings that autotune may change while a job runs. Rank 0 decides on them. They travel
// inside a plan, so that every rank changes them at the same point in the order of operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/status.h"
#include "collectives/select.h"
#include "net/codec.h"

namespace hvd {

struct Tunables {
  int64_t fusion_threshold = 128 << 20;  // bytes; 0: no fusion
  double cycle_time_ms = 0;              // how long complete tensors wait for more; 0: not at all
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kAuto;
  size_t chunk_bytes = 0;  // of the pipeline through shared memory; 0: the data plane chooses
  // Two levels, whatever the value of `algorithm`.
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool cache_enabled = true;

  bool operator==(const Tunables&) const = default;
};

// The values that the user has set, or the defaults. Fails for an unknown name of an algorithm.
Result<Tunables> tunables_from(const Config& config);

// For Plan::tunables. decode_tunables() refuses values that no Config can have: a negative
// threshold, a time that is not a number, an unknown algorithm.
ByteBuffer encode(const Tunables& tunables);
Result<Tunables> decode_tunables(ConstBytes bytes);

}  // namespace hvd
