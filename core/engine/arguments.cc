// SPDX-License-Identifier: Apache-2.0
#include "engine/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace hvd {
namespace {

Status complain(const Request& request, std::string_view what) {
  return invalid_argument(
      fmt::format("{} \"{}\": {}", to_string(request.type), request.name, what));
}

Status check_splits(TensorTask& task, size_t ranks) {
  const Request& request = task.request;
  if (request.shape.empty())
    return complain(request, "a scalar cannot be split; reshape it to [1]");
  const int64_t rows = request.shape.front();
  if (task.splits.empty()) {
    if (rows % static_cast<int64_t>(ranks) != 0) {
      return complain(request, fmt::format("{} rows cannot be divided evenly among {} ranks; pass "
                                           "splits",
                                           rows, ranks));
    }
    const int64_t each = rows / static_cast<int64_t>(ranks);
    if (each > std::numeric_limits<int32_t>::max()) {
      return complain(request, fmt::format("{} rows are {} for each rank, and at most {} can be "
                                           "sent; reshape it to fewer, longer rows",
                                           rows, each, std::numeric_limits<int32_t>::max()));
    }
    task.splits.assign(ranks, static_cast<int32_t>(each));
    return Status::ok();
  }
  if (task.splits.size() != ranks) {
    return complain(request, fmt::format("{} splits for {} ranks; one per rank is needed",
                                         task.splits.size(), ranks));
  }
  if (std::any_of(task.splits.begin(), task.splits.end(),
                  [](int32_t rows_to) { return rows_to < 0; })) {
    return complain(request, "a split is negative");
  }
  const int64_t sum = std::accumulate(task.splits.begin(), task.splits.end(), int64_t{0});
  if (sum > rows) {
    return complain(request, fmt::format("splits add up to {} rows, the tensor has {}", sum, rows));
  }
  return Status::ok();
}

Status check_reduction(const Request& request) {
  if (request.type == RequestType::kAdasum && !is_floating(request.dtype)) {
    return complain(request,
                    fmt::format("Adasum needs a floating dtype, not {}", to_string(request.dtype)));
  }
  if (request.type != RequestType::kReducescatter) return Status::ok();
  if (request.op != ReduceOp::kSum && request.op != ReduceOp::kAverage) {
    return complain(
        request, fmt::format("op {} is not supported; use Sum or Average", to_string(request.op)));
  }
  if (request.dtype == DType::kBool) return complain(request, "bool is not supported");
  if (request.shape.empty()) {
    return complain(request, "a scalar cannot be scattered; reshape it to [1]");
  }
  return Status::ok();
}

}  // namespace

Status check_arguments(TensorTask& task, std::span<const int> job_ranks) {
  const Request& request = task.request;
  if (request.name.empty()) return complain(request, "a name is needed");
  for (const int64_t dimension : request.shape) {
    if (dimension < 0) {
      return complain(request,
                      fmt::format("shape {} has a negative dimension", to_string(request.shape)));
    }
  }
  if (task.in == nullptr && request.bytes() > 0 && request.type != RequestType::kBarrier &&
      request.type != RequestType::kAddProcessSet &&
      request.type != RequestType::kRemoveProcessSet) {
    return complain(request, "there is no input");
  }
  if (request.type == RequestType::kBroadcast &&
      std::find(job_ranks.begin(), job_ranks.end(), request.root) == job_ranks.end()) {
    return complain(request,
                    fmt::format("root rank {} is not in the process set, which has ranks {}",
                                request.root, fmt::join(job_ranks, ", ")));
  }
  if (request.type == RequestType::kAlltoall) return check_splits(task, job_ranks.size());
  return check_reduction(request);
}

}  // namespace hvd
