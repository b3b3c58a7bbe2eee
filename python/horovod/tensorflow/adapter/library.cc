// SPDX-License-Identifier: Apache-2.0
// The adapter as a whole. TensorFlow opens it by tf.load_op_library and makes Python functions of
// the operations that appear meanwhile, so they are registered right then.
#include <string>

#include "kernels.h"
#include "ops.h"
#include "tensorflow_api.h"
#include "xla.h"

namespace hvd::tensorflow {
namespace {

std::string register_all() {
  std::string problem = load_api();
  if (problem.empty()) problem = register_ops();
  if (problem.empty()) problem = register_kernels();
  return problem;
}

// Never destroyed: Python may ask while the process ends.
const std::string& problem() {
  static const auto* const kProblem = new std::string(register_all());
  return *kProblem;
}

const std::string& xla_problem() {
  static const auto* const kProblem =
      new std::string(problem().empty() ? register_xla_target() : problem());
  return *kProblem;
}

__attribute__((constructor)) void on_load() { xla_problem(); }

}  // namespace
}  // namespace hvd::tensorflow

extern "C" {

// Why this TensorFlow cannot be served; empty if it can.
__attribute__((visibility("default"))) const char* hvd_tensorflow_problem() {
  return hvd::tensorflow::problem().c_str();
}

// Why functions that XLA compiles cannot be served; empty if they can.
__attribute__((visibility("default"))) const char* hvd_tensorflow_xla_problem() {
  return hvd::tensorflow::xla_problem().c_str();
}
}
