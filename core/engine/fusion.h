// SPDX-License-Identifier: Apache-2.0
// Cuts a plan into batches: tensors that one collective carries out together. A pure function of
// what all ranks know, so that all cut alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"

namespace hvd {

struct FusionOptions {
  int64_t threshold = 128 << 20;  // bytes of one batch; 0: every tensor alone
  bool within_groups_only = false;
  bool fuse_adasum = true;  // off: its bits would depend on its neighbours
};

// Positions in Plan::responses; never errors. Whatever its size, one tensor makes a batch.
struct Batch {
  std::vector<uint32_t> items;
};

// What a response counts against the threshold: bytes reduced, or gathered from all ranks.
int64_t fused_bytes(const Response& response);

// Greedy, from the first tensor on. Tensors that do not match are passed over as long as they and
// the batch stay below the threshold, and keep their order.
std::vector<Batch> fuse(const Plan& plan, const FusionOptions& options);

}  // namespace hvd
