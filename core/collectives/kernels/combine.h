// SPDX-License-Identifier: Apache-2.0
// Where combine_fn finds its functions; each file is compiled once per instruction set.
#pragma once

#include "base/dtype.h"
#include "collectives/kernels/kernels.h"

namespace hvd::kernels {

CombineFn float_combine_fn(Combine combine, DType dtype);
// The integers and bool.
CombineFn integer_combine_fn(Combine combine, DType dtype);

}  // namespace hvd::kernels
