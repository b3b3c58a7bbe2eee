// SPDX-License-Identifier: Apache-2.0
// One rank of a test, with an engine, and calls as a front end would make them.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "transport/control/control_plane.h"
#include "transport/transport.h"

namespace hvd::testing {

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::kUint8;
}

inline WorkerOptions worker_options(int size) {
  WorkerOptions options;
  options.host_backend.job_ranks.resize(size);
  std::iota(options.host_backend.job_ranks.begin(), options.host_backend.job_ranks.end(), 0);
  options.host_backend.timeout = std::chrono::milliseconds(20'000);
  return options;
}

class Member {
 public:
  // `transport` and `control` must outlive it.
  Member(Transport& transport, ControlPlane& control, WorkerOptions worker) {
    EngineOptions options;
    options.worker = std::move(worker);
    options.ranks_on_host = transport.size();
    auto started = Engine::start(options, std::shared_ptr<Transport>(&transport, [](Transport*) {}),
                                 std::shared_ptr<ControlPlane>(&control, [](ControlPlane*) {}));
    HVD_CHECK(started.is_ok());
    engine_ = std::move(started).value();
  }
  Member(Transport& transport, ControlPlane& control)
      : Member(transport, control, worker_options(transport.size())) {}

  Engine& engine() { return *engine_; }

  template <typename T>
  static TensorTask task(RequestType type, const std::string& name, const std::vector<T>& in,
                         std::vector<T>* out, Shape shape) {
    TensorTask made;
    made.request.type = type;
    made.request.name = name;
    made.request.dtype = dtype_of<T>();
    made.request.shape = std::move(shape);
    static const std::byte nothing{};
    made.in = in.empty() ? &nothing : reinterpret_cast<const std::byte*>(in.data());
    made.out = out == nullptr ? nullptr : reinterpret_cast<std::byte*>(out->data());
    return made;
  }

  Result<Operation::Ref> submit(TensorTask task, SubmitHint hint = SubmitHint::kNone) {
    std::vector<TensorTask> tasks;
    tasks.push_back(std::move(task));
    return submit(std::move(tasks), hint);
  }
  Result<Operation::Ref> submit(std::vector<TensorTask> tasks,
                                SubmitHint hint = SubmitHint::kNone) {
    Operation::Ref operation = Operation::make(std::move(tasks));
    HVD_TRY(engine_->submit(*operation, hint));
    return operation;
  }

  // Starts an allreduce of `data` in place; `data` must stay valid until it is done.
  Result<Operation::Ref> start_allreduce(const std::string& name, std::vector<float>& data,
                                         ReduceOp op = ReduceOp::kSum) {
    TensorTask made = task<float>(RequestType::kAllreduce, name, data, &data,
                                  {static_cast<int64_t>(data.size())});
    made.request.op = op;
    return submit(std::move(made));
  }

  Status finish(const Result<Operation::Ref>& operation) {
    if (!operation.is_ok()) return operation.status();
    HVD_TRY(engine_->wait(**operation, Deadline::after(std::chrono::seconds(30))));
    return (*operation)->status();
  }

  Status allreduce(const std::string& name, std::vector<float>& data,
                   ReduceOp op = ReduceOp::kSum) {
    TensorTask made = task<float>(RequestType::kAllreduce, name, data, &data,
                                  {static_cast<int64_t>(data.size())});
    made.request.op = op;
    return finish(submit(std::move(made), SubmitHint::kWillWait));
  }

  Status barrier() {
    TensorTask made;
    made.request.type = RequestType::kBarrier;
    made.request.name = "barrier.noname";
    made.request.dtype = DType::kUint8;
    return finish(submit(std::move(made), SubmitHint::kWillWait));
  }

  void shutdown() {
    engine_->shutdown(aborted("shut down"), Deadline::after(std::chrono::seconds(10)));
  }

  // The output that the engine kept for tensor `index`.
  template <typename T>
  static std::vector<T> output(const Operation& operation, int index = 0) {
    const TensorTask& done = operation.tasks[index];
    std::vector<T> values(static_cast<size_t>(elements_of(done.shape_of_output())));
    if (!values.empty()) std::memcpy(values.data(), done.out, values.size() * sizeof(T));
    return values;
  }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace hvd::testing
