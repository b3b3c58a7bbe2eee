// SPDX-License-Identifier: Apache-2.0
// What the engine leaves in the ring for the timeline's writer: a record for many tensors at once,
// with numbers where the file has words. A step of 1,000 tensors leaves ten such records, of which
// most concern the same tensors as the one before and say only so. What is the same in every step
// is said once: a tensor's shape is a record of its own.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvd {

// A tensor's name, as Timeline::tensor() numbers them.
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
  bool same_tensors = false;  // as in the last record with TensorIds: none hint
  uint8_t unused = 0;
  int32_t argument = 0;
  uint32_t count = 0;  // of the TensorIds that hint, unless said otherwise
  uint32_t unused_too = 0;
};

}  // namespace hvd
