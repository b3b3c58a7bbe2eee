// SPDX-License-Identifier: Apache-2.0
// The expected result of a reduction, computed element by element without the kernels; it shares no
// code with them. Tests of kernels and of collectives compare with it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "collectives/kernels/kernels.h"
#include "collectives/reduction.h"

namespace hvd::testing {

using Values = std::vector<std::byte>;

// The same values for the same seed. Floats are 0.5, 1, 1.5 or 2 of either sign, so that sums over
// 16 ranks are exact in every dtype and products do not overflow float16. Integers cover their
// whole range and are mostly odd, so that products do not become zero. Bools are mostly true,
// mostly false or mixed, by index, so that neither "and" nor "or" of many ranks is constant.
Values random_values(DType dtype, size_t count, uint64_t seed);

// in[0] ∘ in[1] ∘ … per element as kernels.h defines it, to the bit except for the payload of a
// NaN.
Values reference_combine(kernels::Combine combine, DType dtype, std::span<const Values> in);

// As scale and divide of kernels.h, to the bit.
Values reference_scale(DType dtype, Values data, double factor);
Values reference_divide(DType dtype, Values data, uint64_t divisor);

// The result on every rank when rank r contributes in[r]: postscale · op(prescale · in[r]).
Values reference_reduce(ReduceOp op, DType dtype, std::span<const Values> in, double prescale = 1.0,
                        double postscale = 1.0);

// Whether two arrays agree for any order in which `ranks` ranks were combined: integers and bools
// exactly, floats up to half a unit in the last place (of 1, if the value is smaller) per rank. Any
// two NaNs agree. The message names the first element that differs.
::testing::AssertionResult near(DType dtype, ConstBytes actual, ConstBytes expected, int ranks);

// Whether two arrays agree to the bit, except that any two NaNs agree.
::testing::AssertionResult same(DType dtype, ConstBytes actual, ConstBytes expected);

// Element `index` as a number; 64-bit integers are rounded to double.
double number_at(DType dtype, ConstBytes data, size_t index);

// The float16 or bfloat16 nearest to `value`, ties to even; and back.
uint16_t encode_float16(double value);
uint16_t encode_bfloat16(double value);
double decode_float16(uint16_t bits);
double decode_bfloat16(uint16_t bits);

}  // namespace hvd::testing
