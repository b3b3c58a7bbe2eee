// SPDX-License-Identifier: Apache-2.0
// The value that changes nothing when it is combined with another: what a rank gives that takes
// part in a reduction without having data.
#pragma once

#include "base/bytes.h"
#include "base/dtype.h"
#include "collectives/reduction.h"

namespace hvd {

// Fills whole elements. 0 for Sum, Average and Adasum, 1 for Product, the largest value for Min and
// the least for Max (infinities of floats; true and false of bool).
void fill_identity(ReduceOp op, DType dtype, Bytes data);

}  // namespace hvd
