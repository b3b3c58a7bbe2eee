// SPDX-License-Identifier: Apache-2.0
// The kernels of our operations. A kernel hands the operation to the engine and returns, so the
// thread of TensorFlow runs other kernels meanwhile. Kernels that wait could deadlock: ranks reach
// their operations in different orders, and TensorFlow has only a few threads.
#pragma once

#include <string>

namespace hvd::tensorflow {

// Call once, after load_api() and register_ops(). Returns the error of TensorFlow, empty on
// success.
std::string register_kernels();

}  // namespace hvd::tensorflow
