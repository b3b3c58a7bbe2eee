// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/names.h"

#include <array>

#include "base/status.h"

namespace hvd {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, kTraceOpCount> kNegotiations = {
    "NEGOTIATE_ALLREDUCE", "NEGOTIATE_ALLGATHER",     "NEGOTIATE_BROADCAST",
    "NEGOTIATE_ALLTOALL",  "NEGOTIATE_REDUCESCATTER", "NEGOTIATE_ADASUM",
    "NEGOTIATE_BARRIER",   "NEGOTIATE_JOIN",          "NEGOTIATE_ERROR",
};
constexpr std::array<std::string_view, kActivityCount> kActivities = {
    "INIT_FUSION_BUFFER",
    "WAIT_FOR_DATA",
    "WAIT_FOR_OTHER_TENSOR_DATA",
    "ALLOCATE_OUTPUT",
    "MEMCPY_IN_FUSION_BUFFER",
    "MEMCPY_OUT_FUSION_BUFFER",
    "QUEUE",
    "MEMCPY_IN_HOST_BUFFER",
    "MEMCPY_OUT_HOST_BUFFER",
    "MEMCPY_IN_SHARED_BUFFER",
    "ALLOCATE_SHARED_BUFFER",
    "COPY_ALLGATHER_OUTPUT",
    "GLOO_ALLREDUCE",
    "GLOO_ALLGATHER",
    "GLOO_BCAST",
    "GLOO_REDUCESCATTER",
    "MPI_ALLREDUCE",
    "MPI_ALLGATHER",
    "MPI_CROSS_ALLGATHER",
    "MPI_BCAST",
    "MPI_ALLTOALL",
    "MPI_REDUCESCATTER",
    "MPI_ADASUM_ALLREDUCE",
    "INIT_NCCL",
    "NCCL_ALLREDUCE",
    "NCCL_ALLGATHER",
    "NCCL_BCAST",
    "NCCL_ALLTOALL",
    "NCCL_REDUCE",
    "NCCL_REDUCESCATTER",
    "CCL_ALLREDUCE",
    "CCL_ALLGATHER",
    "CCL_BCAST",
};
static_assert(!kNegotiations.back().empty() && !kActivities.back().empty());

}  // namespace

std::optional<TraceOp> trace_op_of(RequestType type) {
  switch (type) {
    case RequestType::kAllreduce: return TraceOp::kAllreduce;
    case RequestType::kAllgather: return TraceOp::kAllgather;
    case RequestType::kBroadcast: return TraceOp::kBroadcast;
    case RequestType::kAdasum: return TraceOp::kAdasum;
    case RequestType::kAlltoall: return TraceOp::kAlltoall;
    case RequestType::kBarrier: return TraceOp::kBarrier;
    case RequestType::kReducescatter: return TraceOp::kReducescatter;
    case RequestType::kAddProcessSet:
    case RequestType::kRemoveProcessSet: break;
  }
  return std::nullopt;
}

std::string_view negotiation_of(TraceOp op) { return kNegotiations.at(static_cast<size_t>(op)); }

std::string_view name_of(TraceOp op) {
  return negotiation_of(op).substr(std::string_view("NEGOTIATE_").size());
}

std::string_view name_of(Activity activity) {
  return kActivities.at(static_cast<size_t>(activity));
}

Activity host_activity_of(TraceOp op) {
  switch (op) {
    case TraceOp::kAllreduce: return Activity::kGlooAllreduce;
    case TraceOp::kAllgather: return Activity::kGlooAllgather;
    case TraceOp::kBroadcast: return Activity::kGlooBcast;
    case TraceOp::kAlltoall: return Activity::kMpiAlltoall;  // that of Gloo has this name as well
    case TraceOp::kReducescatter: return Activity::kGlooReducescatter;
    case TraceOp::kAdasum: return Activity::kMpiAdasumAllreduce;
    case TraceOp::kBarrier:
    case TraceOp::kJoin:
    case TraceOp::kError: break;
  }
  check_failed(__FILE__, __LINE__, "no activity carries out this operation");
}

}  // namespace hvd
