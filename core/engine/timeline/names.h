// SPDX-License-Identifier: Apache-2.0
// The names that appear in a timeline. Scripts that read timelines search for exactly these words,
// so they never change. What our own data plane does on the host has the names of the Gloo backend,
// because such scripts search for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/request.h"

namespace hvd {

// The operation on a tensor. Join and barrier are negotiated, but have no operation in the
// timeline.
enum class TraceOp : uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kReducescatter,
  kAdasum,
  kBarrier,
  kJoin,
  kError,
};
inline constexpr int kTraceOpCount = 9;

// Requests about process sets do not appear in timelines.
std::optional<TraceOp> trace_op_of(RequestType type);
// "ALLREDUCE".
std::string_view name_of(TraceOp op);
// "NEGOTIATE_ALLREDUCE".
std::string_view negotiation_of(TraceOp op);

// A part of an operation.
enum class Activity : uint8_t {
  kInitFusionBuffer,
  kWaitForData,
  kWaitForOtherTensorData,
  kAllocateOutput,
  kMemcpyInFusionBuffer,
  kMemcpyOutFusionBuffer,
  kQueue,
  kMemcpyInHostBuffer,
  kMemcpyOutHostBuffer,
  kMemcpyInSharedBuffer,
  kAllocateSharedBuffer,
  kCopyAllgatherOutput,
  kGlooAllreduce,
  kGlooAllgather,
  kGlooBcast,
  kGlooReducescatter,
  kMpiAllreduce,
  kMpiAllgather,
  kMpiCrossAllgather,
  kMpiBcast,
  kMpiAlltoall,
  kMpiReducescatter,
  kMpiAdasumAllreduce,
  kInitNccl,
  kNcclAllreduce,
  kNcclAllgather,
  kNcclBcast,
  kNcclAlltoall,
  kNcclReduce,
  kNcclReducescatter,
  kCclAllreduce,
  kCclAllgather,
  kCclBcast,
};
inline constexpr int kActivityCount = 33;

// "MEMCPY_IN_FUSION_BUFFER".
std::string_view name_of(Activity activity);
// The activity of our own data plane for `op` on the host. Not for barrier, join and error.
Activity host_activity_of(TraceOp op);

}  // namespace hvd
