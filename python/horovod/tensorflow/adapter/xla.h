// SPDX-License-Identifier: Apache-2.0
// Collectives inside functions that XLA compiles (jit_compile=True), where TensorFlow's kernels
// cannot be: calls of a function of ours, by which the program waits.
//
// XLA knows the shapes of its results when it compiles, so there are only those collectives that
// keep the shape. The function is put into XLA's list by C++ symbols that TensorFlow exports but
// does not promise; if they are gone, everything but this works.
#pragma once

#include <string>

namespace hvd::tensorflow {

// The name that XLA knows the function by.
inline constexpr const char* kXlaTarget = "horovod_collective";

// Returns why compiled functions cannot be served; empty if they can.
std::string register_xla_target();

}  // namespace hvd::tensorflow
