// SPDX-License-Identifier: Apache-2.0
// What runs when TensorFlow comes to one of our operations: it is handed to the engine, and
// TensorFlow's thread goes on. A kernel that waited would stop: ranks come to their operations in
// different orders, and TensorFlow has few threads.
#pragma once

#include <string>

namespace hvd::tensorflow {

// Returns what TensorFlow has to say against it; empty if nothing.
std::string register_kernels();

}  // namespace hvd::tensorflow
