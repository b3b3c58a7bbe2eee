// SPDX-License-Identifier: Apache-2.0
// Types of elements, as TensorFlow numbers them and as the library does.
#pragma once

#include "capi/hvd.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {

// False for a type that cannot be sent.
bool to_dtype(TF_DataType type, hvd_dtype& dtype);

}  // namespace hvd::tensorflow
