// SPDX-License-Identifier: Apache-2.0
// Records in the timeline what the engine of one process set does. It does so for many tensors at
// once: a lookup of each name and one record for each tensor would cost more than the step that
// they describe.
//
// Belongs to the thread that runs the engine. While the timeline is not enabled each call costs one
// look at a flag.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/observer.h"
#include "engine/timeline/timeline.h"

namespace hvd {

class Tracer final : public EngineObserver {
 public:
  // `timeline` must outlive the tracer. `prefix` precedes the names of tensors and tells process
  // sets apart; it is empty for the global process set, the only one that marks cycles. `job_ranks`
  // are the ranks of the set. `cache_capacity` is that of the engine's cache of responses.
  Tracer(Timeline& timeline, std::string prefix, std::vector<int> job_ranks, size_t cache_capacity);

  void on_arrival(const Arrival& arrival) override;
  void on_step() override;
  void on_plan(const Plan& plan) override;
  void on_batch_start(const Plan& plan, const Batch& batch, uint64_t number) override;
  void on_batch_end(uint64_t number) override;

 private:
  // What the timeline has of a cached response.
  struct Known {
    ResponseId id = kNoResponse;
    TensorId tensor = 0;
    bool has_shape = false;  // the timeline has the shape of the response
  };
  // Tensors that the same ranks have.
  struct Ready {
    std::span<const int> ranks;
    std::vector<TensorId> tensors;
  };
  struct TracedBatch {
    uint64_t number = 0;
    bool shapes_known = false;
    std::vector<TensorId> tensors;  // empty: free for another batch, which reuses the memory
  };

  bool enabled() const { return timeline_.enabled(); }
  TensorId tensor_of(const std::string& name);
  // Of a response that the cache has.
  Known& known(ResponseId id, const std::string& name);
  std::vector<TensorId>& ready_at(std::span<const int> ranks);
  void flush_started();

  Timeline& timeline_;
  const std::string prefix_;
  const std::vector<int> job_ranks_;

  // Element `id % known_size_` belongs to the response that used it last. There are at least twice
  // as many elements as the cache has responses, and most ids in use follow each other, so two
  // responses seldom share one; when they do, each costs a lookup of its name and records its shape
  // again. Empty until the timeline is enabled.
  std::vector<Known> known_;
  const size_t known_size_;  // a power of two

  // Not recorded yet: tensors of one operation whose negotiation has started, and which ranks have
  // which tensors.
  TraceOp started_op_ = TraceOp::kAllreduce;
  std::vector<TensorId> started_;
  std::vector<Ready> ready_;  // elements without tensors keep their memory

  // The present plan, by response; empty if the timeline was not enabled when it came.
  std::vector<TensorId> planned_;
  std::vector<TensorId> negotiated_;  // those of them that appear in timelines
  bool shapes_known_ = false;         // of all of them
  std::vector<TracedBatch> batches_;
};

}  // namespace hvd
