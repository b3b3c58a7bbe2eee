// SPDX-License-Identifier: Apache-2.0
#include "engine/tracer.h"

#include <algorithm>

namespace hvd {

TensorId Tracer::id_of(const std::string& name) {
  return prefix_.empty() ? timeline_->tensor(name) : timeline_->tensor(prefix_ + name);
}

TensorId Tracer::id_of(const Response& response) {
  if (response.traced_as == 0) response.traced_as = id_of(response.request.name) + 1;
  return response.traced_as - 1;
}

// Those of one message come one after the other, and lie at the same place.
std::vector<TensorId>& Tracer::ready_at(std::span<const int> ranks) {
  auto found = std::find_if(ready_.rbegin(), ready_.rend(), [ranks](const Ready& each) {
    return each.ranks.data() == ranks.data();
  });
  return found != ready_.rend() ? found->tensors : ready_.emplace_back(Ready{ranks, {}}).tensors;
}

void Tracer::on_ready(const Response* cached, const Request& request, bool first,
                      std::span<const int> ranks) {
  if (!enabled()) return;
  const auto op = trace_op_of(request.type);
  if (!op) return;
  const TensorId id = cached != nullptr ? id_of(*cached) : id_of(request.name);
  if (first) {
    if (*op != started_op_) flush_started();
    started_op_ = *op;
    started_.push_back(id);
  }
  ready_at(ranks).push_back(id);
}

void Tracer::flush_started() {
  timeline_->negotiation_start(started_, started_op_);
  started_.clear();
}

void Tracer::flush() {
  if (!enabled()) {  // it may have been, and what was gathered then has no place in a later file
    started_.clear();
    ready_.clear();
    return;
  }
  flush_started();
  for (Ready& each : ready_) {
    if (each.tensors.empty()) continue;
    for (const int rank : each.ranks) timeline_->rank_ready(each.tensors, job_ranks_[rank]);
    each.tensors.clear();
  }
}

void Tracer::plan_begins(const Plan& plan) {
  planned_.clear();
  if (!enabled()) return;
  flush();
  if (prefix_.empty()) timeline_->mark_cycle();
  shapes_known_ = true;
  std::vector<TensorId>& negotiated = batch_;  // there is no batch yet
  negotiated.clear();
  for (const auto& response : plan.responses) {
    const bool traced = trace_op_of(response->request.type).has_value();
    planned_.push_back(traced ? id_of(*response) : 0);
    if (!traced) continue;
    negotiated.push_back(planned_.back());
    if (response->shape_traced || !response->error.is_ok()) continue;
    response->shape_traced =
        timeline_->shape(planned_.back(), response->request.dtype, response->request.shape);
    shapes_known_ = shapes_known_ && response->shape_traced;
  }
  timeline_->negotiation_end(negotiated);
  for (size_t i = 0; i < planned_.size(); ++i) {
    const Response& response = *plan.responses[i];
    if (response.error.is_ok() || !trace_op_of(response.request.type)) continue;
    timeline_->operation_start(planned_[i], TraceOp::kError);
    timeline_->operation_failed(planned_[i]);
  }
}

void Tracer::batch_begins(const Plan& plan, const Batch& batch) {
  batch_.clear();
  if (!enabled() || planned_.empty()) return;
  const auto op = trace_op_of(plan.responses[batch.items.front()]->request.type);
  if (!op || *op == TraceOp::kBarrier) return;
  for (const uint32_t item : batch.items) batch_.push_back(planned_[item]);
  timeline_->operation_start(batch_, *op);
  timeline_->activity_start(batch_, host_activity_of(*op));
}

void Tracer::batch_ends() {
  if (batch_.empty()) return;
  timeline_->activity_end(batch_);
  // Without room to note a shape: better none than that of another time.
  if (shapes_known_) {
    timeline_->operation_end(batch_);
  } else {
    timeline_->operation_failed(batch_);
  }
}

}  // namespace hvd
