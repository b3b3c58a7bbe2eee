// SPDX-License-Identifier: Apache-2.0
// Kernels: add, multiply and compare arrays of every dtype, with the widest vectors of the machine,
// which are chosen at run time. Pure functions without state: safe from any thread. They do not
// fail; preconditions are checked with check_failed() or not at all.
//
// The bits of an element's result depend on the values alone, not on its place in the array nor on
// the machine: vector and tail code round alike on every instruction set, and nothing is contracted
// into fused multiply-adds. The payload and sign of a NaN are not specified. Arrays are aligned at
// least to their elements. `count` is in elements; with a count of 0 the pointers may be anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/dtype.h"

namespace hvd::kernels {

enum class Combine : uint8_t { kSum, kMin, kMax, kProduct };

// out[i] = in[0][i] ∘ in[1][i] ∘ … in that order, for i < count and inputs >= 1. `out` may be the
// same array as any input but must not overlap one otherwise. By dtype:
//   float16, bfloat16  combined in float32 and rounded once, to nearest even
//   integers           wrap
//   bool               "or" for Sum and Max, "and" for Min and Product; any byte except 0 is true,
//                      and the result is 0 or 1, also with a single input
// Min and Max give NaN if any operand is NaN, and the first one of equal zeros.
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

// "AVX2", "SSE4", …: the instruction set in use, for logs and benchmarks.
const char* target_name();

}  // namespace hvd::kernels
