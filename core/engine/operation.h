// One submission: a tensor, or a group of tensors that completes as one. Shared by the caller, who
// waits for it or is called back, and the engine, which carries it out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/request.h"

namespace hvd {

class Operation;
struct InFlightName;

// One tensor of an operation. The memory belongs to the caller and stays as it is until the
// operation is done.
struct TensorTask {
  Request request;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;     // may equal `in`; null: memory comes once the size is known
  std::vector<int32_t> splits;  // of an alltoall: rows for each rank

  // Results.
  bool has_own_shape = false;  // the output has not the shape of the input, but output_shape
  Shape output_shape;
  std::vector<int32_t> received_splits;
  std::unique_ptr<std::byte[]> own_output;  // when the caller has no allocator

  Operation* operation = nullptr;
  int index = 0;  // in its operation
  InFlightName* name_in_flight = nullptr;

  // Of the output, once the operation is done.
  const Shape& shape_of_output() const { return has_own_shape ? output_shape : request.shape; }
};

class Operation {
 public:
  // Gives memory for the output of tensor `index`, or null when there is none.
  using Allocate = std::function<std::byte*(int index, const Shape& shape)>;
  // Called once, on whichever thread runs the engine: it must neither block nor fail.
  using Done = std::function<void(const Operation&)>;

  explicit Operation(std::vector<TensorTask> tasks_of, Allocate allocate_by = nullptr,
                     Done call_when_done = nullptr)
      : tasks(std::move(tasks_of)),
        allocate(std::move(allocate_by)),
        when_done(std::move(call_when_done)),
        remaining(tasks.size()) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].operation = this;
      tasks[i].index = static_cast<int>(i);
    }
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Without tensors it is a join.
  bool joins() const { return tasks.empty(); }

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Once it is done: the failure of its first tensor that failed, or ok.
  const Status& status() const { return status_; }
  // Of a join, once it is done: the rank that joined last.
  int last_joined() const { return last_joined_; }

  std::vector<TensorTask> tasks;
  const Allocate allocate;
  const Done when_done;
  uint32_t group = 0;

  // The engine's.
  size_t remaining;
  void note(const Status& status) {
    if (status_.is_ok() && !status.is_ok()) status_ = status;
  }
  void set_last_joined(int rank) { last_joined_ = rank; }
  void finish() {
    done_.store(true, std::memory_order_release);
    if (when_done) when_done(*this);
  }

 private:
  std::atomic<bool> done_{false};
  Status status_;
  int last_joined_ = -1;
};

}  // namespace hvd
