// SPDX-License-Identifier: Apache-2.0
// The arithmetic: adds, multiplies and compares arrays of every dtype with the widest vectors that
// the machine has, chosen at run time. No ranks, no memory of its own.
//
// For any element the bits of the result depend on the values alone, not on its place in the
// array nor on the machine: vector and tail code round alike on every instruction set, and nothing
// is contracted into fused multiply-adds. Of a NaN only that it is one is promised. Arrays are
// aligned to their element at least; a count of 0 is fine, whatever the pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/dtype.h"

namespace hvd::kernels {

enum class Combine : uint8_t { kSum, kMin, kMax, kProduct };

// out[i] = in[0][i] ∘ in[1][i] ∘ … in that order, for i < count, where `inputs` >= 1. `out` may be
// the same array as any input, but may not overlap one otherwise. float16 and bfloat16 are
// combined in float32 and rounded once, to nearest even; integers wrap; bool is "or" for Sum and
// Max, "and" for Min and Product, any byte but zero being true (also of a single input: the result
// is 0 or 1). Min and Max give NaN if any operand is NaN, and the first of equal zeros.
using CombineFn = void (*)(std::byte* out, const std::byte* const* in, size_t inputs, size_t count);
CombineFn combine_fn(Combine combine, DType dtype);

// data[i] *= factor: float64 in double, other floats in float32 (the factor too) rounded once,
// integers in double truncated toward zero and clamped to the type's range, where NaN becomes 0;
// bool as (value and factor != 0).
void scale(DType dtype, std::byte* data, size_t count, double factor);

// data[i] /= divisor, which is positive: integers exactly and truncated toward zero, floats by a
// correctly rounded division in their own precision (float32 for the 16-bit ones), bool unchanged.
void divide(DType dtype, std::byte* data, size_t count, uint64_t divisor);

// dot = a·b, a_squared = a·a, b_squared = b·b, accumulated in double, in the same order on every
// machine. Floating dtypes only.
struct Products {
  double dot = 0;
  double a_squared = 0;
  double b_squared = 0;
};
Products products(DType dtype, const std::byte* a, const std::byte* b, size_t count);

// out[i] = ca·a[i] + cb·b[i], computed in double (float32 for the 16-bit types) and rounded once.
// `out` may be the same array as `a` or `b`. Floating dtypes only.
void blend(DType dtype, std::byte* out, const std::byte* a, double ca, const std::byte* b,
           double cb, size_t count);

// "AVX2", "SSE4", …: what run-time dispatch chose, for logs and benchmarks.
const char* target_name();

}  // namespace hvd::kernels
