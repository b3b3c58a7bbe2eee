// SPDX-License-Identifier: Apache-2.0
// Entry points of the adapter. tf.load_op_library opens it and makes Python functions for the
// operations that are registered meanwhile, so a constructor of the library registers them.
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

// Never destroyed, because Python may ask while the process ends.
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

// Why the adapter does not work with this TensorFlow; empty if it does. library.py raises it as
// ImportError.
__attribute__((visibility("default"))) const char* hvd_tensorflow_problem() {
  return hvd::tensorflow::problem().c_str();
}

// Why collectives do not work in functions that XLA compiles; empty if they do.
__attribute__((visibility("default"))) const char* hvd_tensorflow_xla_problem() {
  return hvd::tensorflow::xla_problem().c_str();
}
}
