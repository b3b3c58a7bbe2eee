// SPDX-License-Identifier: Apache-2.0
// What the engine puts into the ring for the writer of the timeline: one record for many tensors,
// with numbers where the file has words. A step of 1,000 tensors makes ten records. Most of them
// concern the same tensors as the record before, and contain only a flag instead of the tensors.
// The shape of a tensor, which is the same in every step, is recorded once, as a record of its own.
//
// Layout: TraceRecord, then `count` TensorIds (uint32_t), or for kShape `count` int64_t.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvd {

// The number of a tensor's name, from Timeline::tensor().
using TensorId = uint32_t;

struct TraceRecord {
  enum class Kind : uint8_t {
    kNegotiationStart,  // detail: TraceOp
    kRankReady,         // argument: rank of the job
    kNegotiationEnd,
    kOperationStart,  // detail: TraceOp
    kActivityStart,   // detail: Activity
    kActivityEnd,
    kOperationEnd,
    kOperationFailed,
    kShape,  // of the tensor `argument`; detail: DType; followed by `count` int64_t
    kCycle,
  };
  int64_t time = 0;  // nanoseconds of the steady clock
  Kind kind = Kind::kCycle;
  uint8_t detail = 0;
  bool same_tensors = false;  // those of the last record with TensorIds: none follow
  uint8_t unused = 0;
  int32_t argument = 0;
  uint32_t count = 0;  // of the TensorIds that follow, except for kShape
  uint32_t unused_too = 0;
};

}  // namespace hvd
