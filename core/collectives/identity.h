// SPDX-License-Identifier: Apache-2.0
// The identity element of a reduction: the value that changes nothing when it is combined with
// another. A rank that has joined (hvd.join) contributes it, because it takes part without data.
#pragma once

#include "base/bytes.h"
#include "base/dtype.h"
#include "collectives/reduction.h"

namespace hvd {

// Fills `data`, a whole number of elements: 0 for Sum, Average and Adasum, 1 for Product, the
// largest value for Min and the smallest for Max (infinities for floats; true and false for bool).
void fill_identity(ReduceOp op, DType dtype, Bytes data);

}  // namespace hvd
