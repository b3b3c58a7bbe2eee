// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

#include <numeric>

namespace hvd {
namespace {

bool is_fusible(RequestType type, const FusionOptions& options) {
  return type == RequestType::kAllreduce || type == RequestType::kReducescatter ||
         type == RequestType::kAllgather || (type == RequestType::kAdasum && options.fuse_adasum);
}

// Whether one collective can carry out both. An allgather needs only the same dtype and device; a
// reduction also the same arithmetic.
bool fit_together(const Request& a, const Request& b) {
  if (a.type != b.type || a.dtype != b.dtype || a.device != b.device) return false;
  return a.type == RequestType::kAllgather ||
         (a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale);
}

}  // namespace

int64_t fused_bytes(const Response& response) {
  const Request& request = response.request;
  if (request.type != RequestType::kAllgather) return static_cast<int64_t>(request.bytes());
  const int64_t rows = std::accumulate(response.first_dimensions.begin(),
                                       response.first_dimensions.end(), int64_t{0});
  int64_t row = static_cast<int64_t>(size_of(request.dtype));
  for (size_t i = 1; i < request.shape.size(); ++i) row *= request.shape[i];
  return rows * row;
}

std::vector<Batch> fuse(const Plan& plan, const FusionOptions& options) {
  const auto count = static_cast<uint32_t>(plan.responses.size());
  std::vector<Batch> batches;
  std::vector<bool> taken(count, false);
  for (uint32_t first = 0; first < count; ++first) {
    const Response& leader = *plan.responses[first];
    if (taken[first] || !leader.error.is_ok()) continue;
    Batch& batch = batches.emplace_back();
    batch.items.push_back(first);
    if (!is_fusible(leader.request.type, options)) continue;
    int64_t fused = fused_bytes(leader);
    // Bytes passed over. They limit how much earlier than in the order of the plan a tensor is
    // carried out.
    int64_t passed_over = 0;
    for (uint32_t i = first + 1; i < count && fused + passed_over <= options.threshold; ++i) {
      const Response& other = *plan.responses[i];
      if (taken[i] || !other.error.is_ok()) continue;
      const int64_t bytes = fused_bytes(other);
      const bool same_group = !options.within_groups_only ||
                              (plan.groups[first] != 0 && plan.groups[i] == plan.groups[first]);
      if (same_group && fit_together(leader.request, other.request) &&
          fused + bytes <= options.threshold) {
        batch.items.push_back(i);
        taken[i] = true;
        fused += bytes;
      } else {
        passed_over += bytes;
      }
    }
  }
  return batches;
}

}  // namespace hvd
