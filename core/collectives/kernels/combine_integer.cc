// SPDX-License-Identifier: Apache-2.0
// Sum, Min, Max and Product of integers and bool: plain loops, which the compiler vectorizes for
// each instruction set.
#include "collectives/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/combine_integer.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file once per instruction set.
#include <algorithm>
#include <type_traits>

#include "collectives/kernels/combine.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hvd::kernels::HWY_NAMESPACE {

// Wrapping arithmetic needs an unsigned type that is not promoted to int, whose overflow is
// undefined.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

// `Alone` of an operation is applied to a single input: integers stay, any true byte of a bool
// becomes 1.
struct Keep {
  template <typename T>
  HWY_INLINE T operator()(T a, T /*a*/) const {
    return a;
  }
};

struct IntegerSum {
  using Alone = Keep;
  template <typename T>
  HWY_INLINE T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct IntegerProduct {
  using Alone = Keep;
  template <typename T>
  HWY_INLINE T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct IntegerMin {
  using Alone = Keep;
  template <typename T>
  HWY_INLINE T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct IntegerMax {
  using Alone = Keep;
  template <typename T>
  HWY_INLINE T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct BoolOr {
  using Alone = BoolOr;
  HWY_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return (a | b) != 0 ? 1 : 0; }
};
struct BoolAnd {
  using Alone = BoolAnd;
  HWY_INLINE uint8_t operator()(uint8_t a, uint8_t b) const {
    return ((a != 0) & (b != 0)) ? 1 : 0;
  }
};

// into[i] = op(a[i], b[i]). `into` may be `a` or `b`. The pragma promises that the arrays do not
// overlap otherwise; without it the compiler's check would select the scalar loop in exactly that
// case. (clang warns in builds that do not vectorize, such as sanitized ones.)
template <class Op, typename T>
HWY_INLINE void combine_two(T* into, const T* a, const T* b, size_t count) {
  const Op op;
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (size_t i = 0; i < count; ++i) into[i] = op(a[i], b[i]);
}

// More than two inputs are accumulated in blocks of 2 KiB, which stay in the first-level cache.
template <class Op, typename T>
void combine_integers(std::byte* out_bytes, const std::byte* const* in_bytes, size_t inputs,
                      size_t count) {
  constexpr size_t kBlock = 2048 / sizeof(T);
  auto* out = reinterpret_cast<T*>(out_bytes);
  const auto* in = reinterpret_cast<const T* const*>(in_bytes);
  if (inputs == 1) {
    combine_two<typename Op::Alone>(out, in[0], in[0], count);
    return;
  }
  if (inputs == 2) {
    combine_two<Op>(out, in[0], in[1], count);
    return;
  }
  T block[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min(kBlock, count - begin);
    combine_two<Op>(block, in[0] + begin, in[1] + begin, n);
    for (size_t k = 2; k + 1 < inputs; ++k) combine_two<Op>(block, block, in[k] + begin, n);
    combine_two<Op>(out + begin, block, in[inputs - 1] + begin, n);
  }
}

template <typename T>
CombineFn choose_integer_op(Combine combine) {
  switch (combine) {
    case Combine::kSum: return combine_integers<IntegerSum, T>;
    case Combine::kMin: return combine_integers<IntegerMin, T>;
    case Combine::kMax: return combine_integers<IntegerMax, T>;
    case Combine::kProduct: return combine_integers<IntegerProduct, T>;
  }
  return nullptr;
}

CombineFn choose_integer(Combine combine, DType dtype) {
  switch (dtype) {
    case DType::kUint8: return choose_integer_op<uint8_t>(combine);
    case DType::kInt8: return choose_integer_op<int8_t>(combine);
    case DType::kUint16: return choose_integer_op<uint16_t>(combine);
    case DType::kInt16: return choose_integer_op<int16_t>(combine);
    case DType::kUint32: return choose_integer_op<uint32_t>(combine);
    case DType::kInt32: return choose_integer_op<int32_t>(combine);
    case DType::kUint64: return choose_integer_op<uint64_t>(combine);
    case DType::kInt64: return choose_integer_op<int64_t>(combine);
    case DType::kBool: {
      const bool either = combine == Combine::kSum || combine == Combine::kMax;
      return either ? combine_integers<BoolOr, uint8_t> : combine_integers<BoolAnd, uint8_t>;
    }
    default: return nullptr;
  }
}

}  // namespace hvd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hvd::kernels {

HWY_EXPORT(choose_integer);

CombineFn integer_combine_fn(Combine combine, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(choose_integer)(combine, dtype);
}

}  // namespace hvd::kernels
#endif
