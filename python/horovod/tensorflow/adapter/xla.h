// SPDX-License-Identifier: Apache-2.0
// Collectives inside functions that XLA compiles (jit_compile=True). XLA cannot run kernels of
// TensorFlow, so the compiled program calls a function of ours, which waits for the result.
//
// XLA needs the shapes of results at compile time, so only collectives that keep the shape are
// supported. We register the function through C++ symbols that TensorFlow exports but that are not
// part of its public API. If they are missing, everything except compiled functions works.
#pragma once

#include <string>

namespace hvd::tensorflow {

// The name of the function in XLA's registry; xla.py uses the same name.
inline constexpr const char* kXlaTarget = "horovod_collective";

// Call once, after load_api(). Returns why compiled functions are not supported, empty on success.
std::string register_xla_target();

}  // namespace hvd::tensorflow
