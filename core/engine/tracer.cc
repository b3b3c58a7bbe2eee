#include "engine/tracer.h"

namespace hvd {

TensorId Tracer::id_of(const Response& response) {
  if (response.traced_as == 0) response.traced_as = timeline_->tensor(response.request.name) + 1;
  return response.traced_as - 1;
}

void Tracer::on_ready(const Response* cached, const Request& request, bool first,
                      std::span<const int> ranks) {
  if (!enabled()) return;
  const auto op = trace_op_of(request.type);
  if (!op) return;
  const TensorId id = cached != nullptr ? id_of(*cached) : timeline_->tensor(request.name);
  if (first) {
    if (*op != started_op_) flush_started();
    started_op_ = *op;
    started_.push_back(id);
  }
  for (const int rank : ranks) ready_[rank].push_back(id);
}

void Tracer::flush_started() {
  timeline_->negotiation_start(started_, started_op_);
  started_.clear();
}

void Tracer::flush() {
  if (started_.empty() && ready_.empty()) return;
  if (!enabled()) {  // it was, and what was gathered then has no place in a later file
    started_.clear();
    ready_.clear();
    return;
  }
  flush_started();
  for (auto& [rank, ids] : ready_) {
    timeline_->rank_ready(ids, rank);
    ids.clear();
  }
}

void Tracer::plan_begins(const Plan& plan) {
  if (!enabled()) return;
  flush();
  timeline_->mark_cycle();
  ids_.clear();
  for (const auto& response : plan.responses) {
    if (trace_op_of(response->request.type)) ids_.push_back(id_of(*response));
  }
  timeline_->negotiation_end(ids_);
  for (const auto& response : plan.responses) {
    if (response->error.is_ok() || !trace_op_of(response->request.type)) continue;
    timeline_->operation_start(id_of(*response), TraceOp::kError);
    timeline_->operation_failed(id_of(*response));
  }
}

void Tracer::batch_begins(const Plan& plan, const Batch& batch) {
  if (!enabled()) return;
  const RequestType type = plan.responses[batch.items.front()]->request.type;
  const auto op = trace_op_of(type);
  if (!op || *op == TraceOp::kBarrier) return;
  ids_.clear();
  for (const uint32_t item : batch.items) ids_.push_back(id_of(*plan.responses[item]));
  timeline_->operation_start(ids_, *op);
  timeline_->activity_start(ids_, host_activity_of(*op));
}

void Tracer::batch_ends(const Plan& plan, const Batch& batch) {
  if (!enabled()) return;
  const auto op = trace_op_of(plan.responses[batch.items.front()]->request.type);
  if (!op || *op == TraceOp::kBarrier) return;
  ids_.clear();
  finished_.clear();
  for (const uint32_t item : batch.items) {
    const Response& response = *plan.responses[item];
    ids_.push_back(id_of(response));
    finished_.push_back({ids_.back(), response.request.dtype, response.request.shape});
  }
  timeline_->activity_end(ids_);
  timeline_->operation_end(finished_);
}

}  // namespace hvd
