// SPDX-License-Identifier: Apache-2.0
// Divides a plan into batches: tensors that one collective carries out together. A pure function of
// the plan and of options that are equal on all ranks, so all ranks make the same batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"

namespace hvd {

struct FusionOptions {
  int64_t threshold = 128 << 20;    // most bytes of one batch; 0: every tensor alone
  bool within_groups_only = false;  // fuse only tensors that were submitted as one group
  // Off in deterministic mode: the bits of an Adasum depend on the tensors it is fused with.
  bool fuse_adasum = true;
};

// Indices into Plan::responses. A response with an error is in no batch. A batch of one tensor may
// exceed the threshold.
struct Batch {
  std::vector<uint32_t> items;
};

// The bytes of a response that count for the threshold: the bytes to reduce, or for an allgather
// the bytes of all ranks.
int64_t fused_bytes(const Response& response);

// Greedy, from the first tensor on: a batch takes the later tensors that match its first tensor and
// that fit below the threshold. It passes over the others. The batch ends when its bytes and the
// bytes that it has passed over exceed the threshold together. Tensors that were passed over keep
// their order.
std::vector<Batch> fuse(const Plan& plan, const FusionOptions& options);

}  // namespace hvd
