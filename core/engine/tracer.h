// SPDX-License-Identifier: Apache-2.0
// Tells the timeline what the engine does, for many tensors at once: looking names up and writing
// records one by one would cost more than the step they describe.
//
// Belongs to the thread that runs the engine. Costs one look at a flag while no timeline is wanted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/fusion.h"
#include "engine/negotiator.h"
#include "engine/plan.h"
#include "engine/timeline/timeline.h"

namespace hvd {

class Tracer final : public Negotiator::Observer {
 public:
  // Where `timeline` is null nothing is traced; it outlives the tracer. `prefix` comes before the
  // names of tensors and tells process sets apart; it is empty for all ranks. `job_ranks` are those
  // of the set.
  Tracer(Timeline* timeline, std::string prefix, std::vector<int> job_ranks)
      : timeline_(timeline), prefix_(std::move(prefix)), job_ranks_(std::move(job_ranks)) {}

  bool enabled() const { return timeline_ != nullptr && timeline_->enabled(); }

  // Arrivals of tensors; gathered until flush().
  void on_ready(const Response* cached, const Request& request, bool first,
                std::span<const int> ranks) override;
  void flush();

  // In this order; a plan has any number of batches.
  void plan_begins(const Plan& plan);
  void batch_begins(const Plan& plan, const Batch& batch);
  void batch_ends();

 private:
  // Some ranks have told of these.
  struct Ready {
    std::span<const int> ranks;
    std::vector<TensorId> tensors;
  };

  TensorId id_of(const std::string& name);
  TensorId id_of(const Response& response);
  std::vector<TensorId>& ready_at(std::span<const int> ranks);
  void flush_started();

  Timeline* const timeline_;
  const std::string prefix_;
  const std::vector<int> job_ranks_;
  // Not written yet: tensors of one kind whose negotiation has begun, and who has which.
  TraceOp started_op_ = TraceOp::kAllreduce;
  std::vector<TensorId> started_;
  std::vector<Ready> ready_;  // empty ones keep their memory

  // Of the present plan, unless it is empty: by response.
  std::vector<TensorId> planned_;
  bool shapes_known_ = false;
  std::vector<TensorId> batch_;  // empty when the present batch is not traced
};

}  // namespace hvd
