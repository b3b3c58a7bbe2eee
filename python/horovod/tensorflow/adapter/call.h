// SPDX-License-Identifier: Apache-2.0
// One run of a collective operation, from TensorFlow's call until it hears that it is done.
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

// A node of a graph, or an eager operation with certain attributes.
struct Kernel {
  const CollectiveOp& op;
  hvd_request request;
  std::string name;  // empty: numbered by the library
};

class Call {
 public:
  // Calls `done` when the outputs, or an error, are in the context: on a thread of the engine, or
  // on this one before it returns.
  static void start(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done);

  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  struct Tensor {
    TF_Tensor* input = nullptr;   // null if the result is to replace it
    TF_Tensor* output = nullptr;  // null as long as its size is not known
    std::string name;
    std::vector<int64_t> shape;
  };

  Call(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done);

  // Those that can fail return false with the error in the context.
  bool take_inputs();
  bool take(int index);
  bool forward(int index);
  bool take_splits();
  void name_tensors();
  bool put_numbers(int output, const int32_t* numbers, int64_t count, int dims);
  bool refuse(const Report& report);
  void fail(hvd_code code, const char* message);
  bool keeps_shapes() const;

  static void* allocate(void* call, int32_t index, const int64_t* shape, int32_t dims);
  static void finish(void* call, hvd_operation* operation, hvd_code code, const char* message);
  // Lets go of everything, then tells TensorFlow, who may go on with anything right there.
  static void end(std::unique_ptr<Call> call);

  const Kernel& kernel_;
  TF_OpKernelContext* context_;
  std::function<void()> done_;
  std::vector<Tensor> tensors_;
  std::vector<hvd_tensor> views_;
  std::vector<int32_t> splits_;
};

}  // namespace hvd::tensorflow
