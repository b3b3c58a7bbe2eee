// SPDX-License-Identifier: Apache-2.0
// The tables behind combine_fn() of kernels.h. Each implementing file is compiled once per
// instruction set; these functions return the version for the machine, or null for a dtype of the
// other file.
#pragma once

#include "base/dtype.h"
#include "collectives/kernels/kernels.h"

namespace hvd::kernels {

CombineFn float_combine_fn(Combine combine, DType dtype);
// Integers and bool.
CombineFn integer_combine_fn(Combine combine, DType dtype);

}  // namespace hvd::kernels
