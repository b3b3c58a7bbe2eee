// SPDX-License-Identifier: Apache-2.0
// The settings that autotune may change while a job runs. Rank 0 decides on them; they travel
// inside the plan, so that every rank changes them at the same place in the order of operations.
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
  double cycle_time_ms = 0;              // longest wait for company; 0: none
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kAuto;
  size_t chunk_bytes = 0;  // of the pipeline through shared memory; 0: as the data plane likes
  // Two levels, whatever `algorithm` says.
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool cache_enabled = true;

  bool operator==(const Tunables&) const = default;
};

// What the user asked for, or the defaults. Fails when the algorithm has no such name.
Result<Tunables> tunables_from(const Config& config);

// For Plan::tunables. The reader refuses values that no Config could have: a negative threshold, a
// time that is not a number, an algorithm without a name.
ByteBuffer encode(const Tunables& tunables);
Result<Tunables> decode_tunables(ConstBytes bytes);

}  // namespace hvd
