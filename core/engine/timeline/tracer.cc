// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/tracer.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hvd {
namespace {

// A cache without bounds must not cost memory without bounds here: 2^20 responses take 24 MiB.
constexpr size_t kMostKnown = size_t{1} << 20;

}  // namespace

Tracer::Tracer(Timeline& timeline, std::string prefix, std::vector<int> job_ranks,
               size_t cache_capacity)
    : timeline_(timeline),
      prefix_(std::move(prefix)),
      job_ranks_(std::move(job_ranks)),
      known_size_(std::bit_ceil(2 * std::clamp<size_t>(cache_capacity, 1, kMostKnown))) {}

TensorId Tracer::tensor_of(const std::string& name) {
  return prefix_.empty() ? timeline_.tensor(name) : timeline_.tensor(prefix_ + name);
}

Tracer::Known& Tracer::known(ResponseId id, const std::string& name) {
  if (known_.empty()) known_.resize(known_size_);
  Known& found = known_[id & (known_size_ - 1)];
  if (found.id != id) found = {.id = id, .tensor = tensor_of(name)};
  return found;
}

// The tensors of one message arrive one after the other, and their `ranks` are the same memory.
std::vector<TensorId>& Tracer::ready_at(std::span<const int> ranks) {
  auto found = std::find_if(ready_.rbegin(), ready_.rend(), [ranks](const Ready& each) {
    return each.ranks.data() == ranks.data();
  });
  return found != ready_.rend() ? found->tensors : ready_.emplace_back(Ready{ranks, {}}).tensors;
}

void Tracer::on_arrival(const Arrival& arrival) {
  if (!enabled()) return;
  const auto op = trace_op_of(arrival.request.type);
  if (!op) return;
  const std::string& name = arrival.request.name;
  const TensorId tensor =
      arrival.id != kNoResponse ? known(arrival.id, name).tensor : tensor_of(name);
  if (arrival.is_first) {
    if (*op != started_op_) flush_started();
    started_op_ = *op;
    started_.push_back(tensor);
  }
  ready_at(arrival.ranks).push_back(tensor);
}

void Tracer::flush_started() {
  timeline_.negotiation_start(started_, started_op_);
  started_.clear();
}

void Tracer::on_step() {
  if (!enabled()) {  // arrivals from before a stop must not appear in a later file
    started_.clear();
    ready_.clear();
    return;
  }
  flush_started();
  for (Ready& each : ready_) {
    if (each.tensors.empty()) continue;
    for (const int rank : each.ranks) timeline_.rank_ready(each.tensors, job_ranks_[rank]);
    each.tensors.clear();
  }
}

void Tracer::on_plan(const Plan& plan) {
  planned_.clear();
  if (!enabled()) return;
  on_step();
  if (prefix_.empty()) timeline_.mark_cycle();
  shapes_known_ = true;
  negotiated_.clear();
  for (size_t i = 0; i < plan.responses.size(); ++i) {
    const Request& request = plan.responses[i]->request;
    if (!trace_op_of(request.type)) {
      planned_.push_back(0);
      continue;
    }
    const ResponseId id = plan.details[i].id;
    Known unremembered;
    if (id == kNoResponse) unremembered.tensor = tensor_of(request.name);
    Known& traced = id != kNoResponse ? known(id, request.name) : unremembered;
    planned_.push_back(traced.tensor);
    negotiated_.push_back(traced.tensor);
    if (traced.has_shape || !plan.responses[i]->error.is_ok()) continue;
    traced.has_shape = timeline_.shape(traced.tensor, request.dtype, request.shape);
    shapes_known_ = shapes_known_ && traced.has_shape;
  }
  timeline_.negotiation_end(negotiated_);
  for (size_t i = 0; i < planned_.size(); ++i) {
    const Response& response = *plan.responses[i];
    if (response.error.is_ok() || !trace_op_of(response.request.type)) continue;
    timeline_.operation_start(planned_[i], TraceOp::kError);
    timeline_.operation_failed(planned_[i]);
  }
}

void Tracer::on_batch_start(const Plan& plan, const Batch& batch, uint64_t number) {
  if (!enabled() || planned_.empty()) return;
  const auto op = trace_op_of(plan.responses[batch.items.front()]->request.type);
  if (!op || *op == TraceOp::kBarrier) return;
  auto free = std::find_if(batches_.begin(), batches_.end(),
                           [](const TracedBatch& each) { return each.tensors.empty(); });
  TracedBatch& traced = free != batches_.end() ? *free : batches_.emplace_back();
  traced.number = number;
  traced.shapes_known = shapes_known_;
  for (const uint32_t item : batch.items) traced.tensors.push_back(planned_[item]);
  timeline_.operation_start(traced.tensors, *op);
  timeline_.activity_start(traced.tensors, host_activity_of(*op));
}

void Tracer::on_batch_end(uint64_t number) {
  const auto found = std::find_if(
      batches_.begin(), batches_.end(),
      [number](const TracedBatch& each) { return !each.tensors.empty() && each.number == number; });
  if (found == batches_.end()) return;
  timeline_.activity_end(found->tensors);
  // There was no room to record a shape: none is better than that of an earlier operation.
  if (found->shapes_known) {
    timeline_.operation_end(found->tensors);
  } else {
    timeline_.operation_failed(found->tensors);
  }
  found->tensors.clear();
}

}  // namespace hvd
