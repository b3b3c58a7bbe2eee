// SPDX-License-Identifier: Apache-2.0
// Maps the element types of TensorFlow to those of the library.
#pragma once

#include "capi/hvd.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {

// Sets `dtype`. Returns false, and leaves it alone, for a type that cannot be sent, such as strings
// and complex numbers.
bool to_dtype(TF_DataType type, hvd_dtype& dtype);

}  // namespace hvd::tensorflow
