// SPDX-License-Identifier: Apache-2.0
// One run of a collective operation: from TensorFlow's call of a kernel to its completion callback.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capi/hvd.h"
#include "ops.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {

// A node of a graph, or an eager operation with certain attributes. TensorFlow owns it (kernels.cc
// creates and deletes it) and keeps it until all its calls have ended.
struct Kernel {
  const CollectiveOp& op;
  hvd_request request;  // without tensors and callbacks; Call::start() copies it and adds them
  std::string name;     // empty: the library numbers the operation
};

// Owns itself: start() hands it to the engine, and finish() deletes it. No lock is needed, because
// only one thread at a time uses it: the thread of TensorFlow until it calls hvd_submit(), then a
// thread of the engine. Errors go into the context, and TensorFlow raises them as tf.errors.
//
//   start() -> take_inputs() -> hvd_submit() -> [allocate() per tensor] -> finish() -> end()
//                  |                |                                                   ^
//                  +---- error -----+---------------------------------------------------+
class Call {
 public:
  // Calls `done` exactly once, after the outputs or an error are in the context: on a thread of the
  // engine, or on the calling thread before this returns. `kernel` and `context` must outlive that
  // call of `done`; TensorFlow guarantees it.
  static void start(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done);

  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  struct Tensor {
    TF_Tensor* input = nullptr;   // null if the result replaces it in the same memory
    TF_Tensor* output = nullptr;  // null until its size is known
    std::string name;             // views_[i].name points into it
    std::vector<int64_t> shape;   // views_[i].shape points into it
  };

  Call(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done);

  // The functions that return bool return false on failure, with the error in the context.
  bool take_inputs();
  bool take(int index);
  bool forward(int index);
  bool take_splits();
  void name_tensors();
  bool put_numbers(int output, const int32_t* numbers, int64_t count, int dims);
  bool refuse(const Report& report);
  void fail(hvd_code code, const char* message);
  bool keeps_shapes() const;

  // Callbacks of the engine, on its threads. `call` is the Call. allocate() returns null if
  // TensorFlow has no memory; the engine then fails the operation.
  static void* allocate(void* call, int32_t index, const int64_t* shape, int32_t dims);
  static void finish(void* call, hvd_operation* operation, hvd_code code, const char* message);
  // Releases all tensors, then calls `done`. TensorFlow may run other kernels, or delete this
  // kernel, inside `done`.
  static void end(std::unique_ptr<Call> call);

  const Kernel& kernel_;
  TF_OpKernelContext* context_;
  std::function<void()> done_;
  std::vector<Tensor> tensors_;
  std::vector<hvd_tensor> views_;  // the engine reads them until finish()
  std::vector<int32_t> splits_;    // of an alltoall; empty: equal parts
};

}  // namespace hvd::tensorflow
