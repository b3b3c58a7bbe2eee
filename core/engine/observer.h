// SPDX-License-Identifier: Apache-2.0
// What the engine of a process set reports while it works. The timeline is the only implementation
// (timeline/tracer.h). The engine does not include it.
//
// Every function is called on the thread that runs the engine, must return soon and must not call
// the engine. Without an observer an event costs one comparison with null.
#pragma once

#include <cstdint>
#include <span>

#include "engine/fusion.h"
#include "engine/plan.h"
#include "engine/request.h"
#include "engine/response_cache.h"

namespace hvd {

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  // This rank, or all ranks of one child's subtree, have a tensor.
  struct Arrival {
    ResponseId id;  // of the cached response for the tensor, or kNoResponse
    const Request& request;
    bool is_first;               // no rank was known to have it before
    std::span<const int> ranks;  // of the set; the memory stays as long as the engine
  };
  virtual void on_arrival(const Arrival& arrival) = 0;
  // All messages that had come in have been processed; several arrivals may precede it.
  virtual void on_step() = 0;

  // A cycle: the negotiation of the tensors in `plan` has ended. Tensors with an error end here.
  virtual void on_plan(const Plan& plan) = 0;
  // A batch of the plan of the last on_plan() starts. `number` is different from the numbers of
  // other batches that have not ended. If the engine fails, on_batch_end() is not called for its
  // batches.
  virtual void on_batch_start(const Plan& plan, const Batch& batch, uint64_t number) = 0;
  virtual void on_batch_end(uint64_t number) = 0;
};

}  // namespace hvd
