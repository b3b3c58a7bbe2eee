// SPDX-License-Identifier: Apache-2.0
// The operations that we register with TensorFlow: names, inputs, outputs and attributes.
//
// All of them are stateful. TensorFlow may fold, merge or remove stateless operations, and then the
// number of collectives could differ between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "capi/hvd.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {

struct CollectiveOp {
  const char* name;
  hvd_collective collective;
  bool groups;  // inputs and outputs are lists of tensors, which may have different types
};
inline constexpr size_t kCollectiveOpCount = 10;
std::span<const CollectiveOp, kCollectiveOpCount> collective_ops();

// Operations that return the place of this process in the job: one int32 each.
struct PlaceOp {
  const char* name;
  int (*value)(int process_set);  // -1 without a job
  bool of_set;                    // has an attribute process_set_id
};
inline constexpr size_t kPlaceOpCount = 5;
std::span<const PlaceOp, kPlaceOpCount> place_ops();

// Names of attributes; each collective has only those that it needs.
inline constexpr const char* kReduceOp = "reduce_op";
inline constexpr const char* kPrescale = "prescale_factor";
inline constexpr const char* kPostscale = "postscale_factor";
inline constexpr const char* kRoot = "root_rank";
inline constexpr const char* kProcessSet = "process_set_id";
// The name of the tensor for the engine, in this order of precedence:
//   1. tensor_name, if it is not empty.
//   2. A number, if `numbered` is set. For eager operations, which all have the same node name.
//   3. The name of the node; with ignore_name_scope only its part after the last '/'.
inline constexpr const char* kTensorName = "tensor_name";
inline constexpr const char* kNumbered = "numbered";
inline constexpr const char* kIgnoreScope = "ignore_name_scope";

inline constexpr const char* kNotInitialized =
    "Horovod has not been initialized; call hvd.init() first";

inline bool reduces(hvd_collective collective) {
  return collective == HVD_ALLREDUCE || collective == HVD_REDUCESCATTER;
}

// Call once, after load_api(). Returns the error of TensorFlow, empty on success.
std::string register_ops();

}  // namespace hvd::tensorflow
