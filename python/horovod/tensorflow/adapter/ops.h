// SPDX-License-Identifier: Apache-2.0
// The operations that TensorFlow learns of: their names, inputs, outputs and attributes.
//
// All are stateful, because TensorFlow folds, merges and drops others as it sees fit, and ranks
// would then disagree about how many collectives there are.
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
  bool groups;  // takes and gives lists of tensors, of any types
};
inline constexpr size_t kCollectiveOpCount = 10;
std::span<const CollectiveOp, kCollectiveOpCount> collective_ops();

// Operations that say where this process stands in the job: one int32 each.
struct PlaceOp {
  const char* name;
  int (*value)(int process_set);  // -1 without a job
  bool of_set;                    // has an attribute process_set_id
};
inline constexpr size_t kPlaceOpCount = 5;
std::span<const PlaceOp, kPlaceOpCount> place_ops();

// Attributes; each collective has those that it needs.
inline constexpr const char* kReduceOp = "reduce_op";
inline constexpr const char* kPrescale = "prescale_factor";
inline constexpr const char* kPostscale = "postscale_factor";
inline constexpr const char* kRoot = "root_rank";
inline constexpr const char* kProcessSet = "process_set_id";
// How the engine knows the tensor. By `tensor_name` if that is not empty; else by a number if it is
// `numbered`, for eager operations, all of which TensorFlow calls the same; else by the name of the
// node, or with `ignore_name_scope` by the last part of it.
inline constexpr const char* kTensorName = "tensor_name";
inline constexpr const char* kNumbered = "numbered";
inline constexpr const char* kIgnoreScope = "ignore_name_scope";

inline constexpr const char* kNotInitialized =
    "Horovod has not been initialized; call hvd.init() first";

inline bool reduces(hvd_collective collective) {
  return collective == HVD_ALLREDUCE || collective == HVD_REDUCESCATTER;
}

// Returns what TensorFlow has to say against it; empty if nothing.
std::string register_ops();

}  // namespace hvd::tensorflow
