// SPDX-License-Identifier: Apache-2.0
// One submission: a tensor, or a group of tensors that is done when all of its tensors are done.
// The caller and the engine share the object. The caller waits for the operation or gets a
// callback; the engine carries the operation out.
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

// One tensor of an operation. The caller owns the memory of `in` and `out` and must not change it
// until the operation is done.
struct TensorTask {
  Request request;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;     // may equal `in`; null: allocated once the size is known
  std::vector<int32_t> splits;  // of an alltoall: rows for each rank

  // Results.
  bool has_own_shape = false;  // the output has output_shape, not the shape of the input
  Shape output_shape;
  std::vector<int32_t> received_splits;
  std::unique_ptr<std::byte[]> own_output;  // when the caller has no allocator

  Operation* operation = nullptr;
  int index = 0;  // in its operation
  InFlightName* name_in_flight = nullptr;

  // Of the output, once the operation is done.
  const Shape& shape_of_output() const { return has_own_shape ? output_shape : request.shape; }
};

// Lives until its last ref is released. The caller holds one ref for as long as it needs the
// outcome; the engine holds one until the operation is done. The count is inside the object, so
// that a subclass can reuse a finished operation with all of its memory (end()).
//
// Threads: before the submission only the caller may use it, after it only the thread that runs the
// engine. is_done(), ref() and the release of a ref are safe on any thread. Once is_done() is true,
// any thread may read the results.
class Operation {
 public:
  // Returns memory for the output of tensor `index`, or null when there is none. Called on the
  // thread that runs the engine.
  using Allocate = std::function<std::byte*(int index, const Shape& shape)>;
  // Called once, on the thread that runs the engine: it must neither block nor throw.
  using Done = std::function<void(const Operation&)>;

  struct GiveUp {
    void operator()(Operation* operation) const { operation->give_up(); }
  };
  using Ref = std::unique_ptr<Operation, GiveUp>;

  static Ref make(std::vector<TensorTask> tasks, Allocate allocate = nullptr,
                  Done when_done = nullptr) {
    Ref made(new Operation);
    made->tasks = std::move(tasks);
    made->prepare(std::move(allocate), std::move(when_done));
    return made;
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Ref ref() {
    shares_.fetch_add(1, std::memory_order_relaxed);
    return Ref(this);
  }

  // An operation without tensors is a join.
  bool joins() const { return tasks.empty(); }

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Once it is done: ok, or the first failure of one of its tensors.
  const Status& status() const { return status_; }
  // Of a join, once it is done: the rank that joined last.
  int last_joined() const { return last_joined_; }
  // Once it is done without failure: the position of its tensor in the plans of the process set,
  // counted from the first plan. The position is the same on all ranks, because the plans are, and
  // no other operation of the set has it. A group has the position of its last tensor in the plans.
  uint64_t number() const { return number_; }

  std::vector<TensorTask> tasks;
  Allocate allocate;
  Done when_done;
  uint32_t group = 0;  // counts the groups of this engine from 1; 0 for a single tensor
  // The caller gave no name: all tasks are called "allreduce.noname", and submission changes that
  // to "allreduce.noname.7", or in a group to "allreduce.noname.7_1of3" (InFlight).
  bool is_unnamed = false;

  // For the engine only.
  size_t remaining = 0;  // tensors that are not done
  // The first failure wins.
  void note(const Status& status) noexcept {
    if (status_.is_ok() && !status.is_ok()) status_ = status;
  }
  void set_last_joined(int rank) { last_joined_ = rank; }
  void set_number(uint64_t number) { number_ = number; }
  void finish() noexcept {
    done_.store(true, std::memory_order_release);
    if (when_done) when_done(*this);
  }
  Operation* next_closed = nullptr;  // the list inside InFlight::close()

 protected:
  Operation() = default;
  virtual ~Operation() = default;

  // Resets it to the state before a submission, with its present tasks. The caller then has the
  // only ref.
  void prepare(Allocate allocate_by, Done call_when_done) {
    allocate = std::move(allocate_by);
    when_done = std::move(call_when_done);
    group = 0;
    next_closed = nullptr;
    remaining = tasks.size();
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].operation = this;
      tasks[i].index = static_cast<int>(i);
    }
    status_ = Status::ok();
    last_joined_ = -1;
    number_ = 0;
    done_.store(false, std::memory_order_relaxed);
    shares_.store(1, std::memory_order_relaxed);
  }
  // The last ref was released.
  virtual void end() { delete this; }

 private:
  void give_up() {
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }

  std::atomic<uint32_t> shares_{1};
  std::atomic<bool> done_{false};
  Status status_;
  int last_joined_ = -1;
  uint64_t number_ = 0;
};

}  // namespace hvd
