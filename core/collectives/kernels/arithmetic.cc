// SPDX-License-Identifier: Apache-2.0
// The kernels scale, divide, products and blend: the arithmetic of allreduce and Adasum in addition
// to combining (combine_float.cc, combine_integer.cc). kernels.h specifies them.
#include "collectives/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/arithmetic.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file once per instruction set.
#include <limits>
#include <type_traits>

#include "base/status.h"
#include "collectives/kernels/kernels.h"
#include "collectives/kernels/lanes-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hvd::kernels::HWY_NAMESPACE {

template <class Number>
struct MultiplyBy {
  Number factor;
  template <class V>
  HWY_INLINE V operator()(V a) const {
    return hn::Mul(a, hn::Set(hn::DFromV<V>(), factor));
  }
};
template <class Number>
struct DivideBy {
  Number divisor;
  template <class V>
  HWY_INLINE V operator()(V a) const {
    return hn::Div(a, hn::Set(hn::DFromV<V>(), divisor));
  }
};
template <class Number>
struct Blend {
  Number ca;
  Number cb;
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const hn::DFromV<V> d;
    return hn::Add(hn::Mul(hn::Set(d, ca), a), hn::Mul(hn::Set(d, cb), b));
  }
};

// data[i] = op(data[i]). The body runs in full vectors; the rest, element by element in one-lane
// vectors, rounds in the same way.
template <class Dtype, class Op>
void map_floats(const Op& op, std::byte* bytes, size_t count) {
  using Body = typename Dtype::Body;
  using Tail = typename Dtype::Tail;
  auto* data = reinterpret_cast<typename Dtype::Element*>(bytes);
  size_t i = 0;
  for (; i + Body::kElements <= count; i += Body::kElements) {
    Body::store(each(op, Body::load(data + i)), data + i);
  }
  for (; i < count; ++i) Tail::store(each(op, Tail::load(data + i)), data + i);
}

// out[i] = op(a[i], b[i])
template <class Dtype, class Op>
void map_floats(const Op& op, std::byte* out_bytes, const std::byte* a_bytes,
                const std::byte* b_bytes, size_t count) {
  using Element = typename Dtype::Element;
  using Body = typename Dtype::Body;
  using Tail = typename Dtype::Tail;
  auto* out = reinterpret_cast<Element*>(out_bytes);
  const auto* a = reinterpret_cast<const Element*>(a_bytes);
  const auto* b = reinterpret_cast<const Element*>(b_bytes);
  size_t i = 0;
  for (; i + Body::kElements <= count; i += Body::kElements) {
    Body::store(each(op, Body::load(a + i), Body::load(b + i)), out + i);
  }
  for (; i < count; ++i) Tail::store(each(op, Tail::load(a + i), Tail::load(b + i)), out + i);
}

// Truncates toward zero and clamps to the range of T; NaN becomes 0. The bounds are powers of two
// and so exact as double. kAbove is max + 1: the maximum of a 64-bit type is not exact as double.
template <typename T>
HWY_INLINE T truncate(double value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr T kHalf = std::numeric_limits<T>::max() / 2 + 1;
  constexpr double kAbove = 2.0 * static_cast<double>(kHalf);
  if (!(value > kLow)) return value == value ? std::numeric_limits<T>::min() : T{0};
  if (value >= kAbove) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

template <typename T>
void scale_integers(std::byte* bytes, size_t count, double factor) {
  auto* data = reinterpret_cast<T*>(bytes);
  for (size_t i = 0; i < count; ++i) data[i] = truncate<T>(static_cast<double>(data[i]) * factor);
}

void scale_bools(std::byte* bytes, size_t count, double factor) {
  const bool keep = factor != 0;
  for (size_t i = 0; i < count; ++i) bytes[i] = std::byte{keep && bytes[i] != std::byte{0}};
}

void scale_array(DType dtype, std::byte* data, size_t count, double factor) {
  const MultiplyBy<float> single{static_cast<float>(factor)};
  switch (dtype) {
    case DType::kUint8: return scale_integers<uint8_t>(data, count, factor);
    case DType::kInt8: return scale_integers<int8_t>(data, count, factor);
    case DType::kUint16: return scale_integers<uint16_t>(data, count, factor);
    case DType::kInt16: return scale_integers<int16_t>(data, count, factor);
    case DType::kUint32: return scale_integers<uint32_t>(data, count, factor);
    case DType::kInt32: return scale_integers<int32_t>(data, count, factor);
    case DType::kUint64: return scale_integers<uint64_t>(data, count, factor);
    case DType::kInt64: return scale_integers<int64_t>(data, count, factor);
    case DType::kBool: return scale_bools(data, count, factor);
    case DType::kFloat16: return map_floats<Float16Form>(single, data, count);
    case DType::kBfloat16: return map_floats<Bfloat16Form>(single, data, count);
    case DType::kFloat32: return map_floats<Float32Form>(single, data, count);
    case DType::kFloat64: return map_floats<Float64Form>(MultiplyBy<double>{factor}, data, count);
  }
}

// For integers below 2^32 (2^16) a division in double (float) followed by truncation is exact: the
// rounding error of the quotient is less than its distance to the next integer. Such divisions run
// in vectors; 64-bit integers are divided one by one.
template <typename T>
void divide_integers(std::byte* bytes, size_t count, uint64_t divisor) {
  auto* data = reinterpret_cast<T*>(bytes);
  if constexpr (sizeof(T) == 8) {
    for (size_t i = 0; i < count; ++i) {
      const bool negative = data[i] < 0;
      const auto bits = static_cast<uint64_t>(data[i]);
      const uint64_t quotient = (negative ? 0 - bits : bits) / divisor;
      data[i] = static_cast<T>(negative ? 0 - quotient : quotient);
    }
  } else {
    using Real = std::conditional_t<sizeof(T) == 4, double, float>;
    const auto real_divisor = static_cast<Real>(divisor);
    for (size_t i = 0; i < count; ++i) {
      data[i] = static_cast<T>(static_cast<Real>(data[i]) / real_divisor);
    }
  }
}

void divide_array(DType dtype, std::byte* data, size_t count, uint64_t divisor) {
  const DivideBy<float> single{static_cast<float>(divisor)};
  const DivideBy<double> twice{static_cast<double>(divisor)};
  switch (dtype) {
    case DType::kUint8: return divide_integers<uint8_t>(data, count, divisor);
    case DType::kInt8: return divide_integers<int8_t>(data, count, divisor);
    case DType::kUint16: return divide_integers<uint16_t>(data, count, divisor);
    case DType::kInt16: return divide_integers<int16_t>(data, count, divisor);
    case DType::kUint32: return divide_integers<uint32_t>(data, count, divisor);
    case DType::kInt32: return divide_integers<int32_t>(data, count, divisor);
    case DType::kUint64: return divide_integers<uint64_t>(data, count, divisor);
    case DType::kInt64: return divide_integers<int64_t>(data, count, divisor);
    case DType::kBool: return;
    case DType::kFloat16: return map_floats<Float16Form>(single, data, count);
    case DType::kBfloat16: return map_floats<Bfloat16Form>(single, data, count);
    case DType::kFloat32: return map_floats<Float32Form>(single, data, count);
    case DType::kFloat64: return map_floats<Float64Form>(twice, data, count);
  }
}

// Eight running sums whatever the vector size (the widest vector has 8 doubles), so that every
// machine adds in the same order and gets the same bits. Element i belongs to sum i % 8; the eight
// sums are added in order at the end.
constexpr size_t kRunningSums = 8;

template <class Dtype>
Products multiply_arrays(const std::byte* a_bytes, const std::byte* b_bytes, size_t count) {
  using Element = typename Dtype::Element;
  using Body = typename Dtype::Body;
  using Tail = typename Dtype::Tail;
  constexpr size_t kStep = Body::kElements;
  constexpr size_t kVectors = kRunningSums / kStep;
  const FullDouble d;
  const auto* a = reinterpret_cast<const Element*>(a_bytes);
  const auto* b = reinterpret_cast<const Element*>(b_bytes);

  hn::Vec<FullDouble> dot[kVectors];
  hn::Vec<FullDouble> a_squared[kVectors];
  hn::Vec<FullDouble> b_squared[kVectors];
  for (size_t v = 0; v < kVectors; ++v) dot[v] = a_squared[v] = b_squared[v] = hn::Zero(d);
  size_t i = 0;
  for (; i + kRunningSums <= count; i += kRunningSums) {
    for (size_t v = 0; v < kVectors; ++v) {
      const auto x = Body::load(a + i + v * kStep);
      const auto y = Body::load(b + i + v * kStep);
      dot[v] = hn::Add(dot[v], hn::Mul(x, y));
      a_squared[v] = hn::Add(a_squared[v], hn::Mul(x, x));
      b_squared[v] = hn::Add(b_squared[v], hn::Mul(y, y));
    }
  }

  double sums[3][kRunningSums];
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(dot[v], d, &sums[0][v * kStep]);
    hn::StoreU(a_squared[v], d, &sums[1][v * kStep]);
    hn::StoreU(b_squared[v], d, &sums[2][v * kStep]);
  }
  for (size_t j = 0; i < count; ++i, ++j) {
    const double x = hn::GetLane(Tail::load(a + i));
    const double y = hn::GetLane(Tail::load(b + i));
    sums[0][j] += x * y;
    sums[1][j] += x * x;
    sums[2][j] += y * y;
  }
  Products total;
  for (size_t j = 0; j < kRunningSums; ++j) {
    total.dot += sums[0][j];
    total.a_squared += sums[1][j];
    total.b_squared += sums[2][j];
  }
  return total;
}

Products multiply(DType dtype, const std::byte* a, const std::byte* b, size_t count) {
  switch (dtype) {
    case DType::kFloat64: return multiply_arrays<Float64Form>(a, b, count);
    case DType::kFloat32: return multiply_arrays<Float32AsDouble>(a, b, count);
    case DType::kFloat16: return multiply_arrays<Float16AsDouble>(a, b, count);
    case DType::kBfloat16: return multiply_arrays<Bfloat16AsDouble>(a, b, count);
    default: check_failed(__FILE__, __LINE__, "products of a dtype that is not floating");
  }
}

void blend_arrays(DType dtype, std::byte* out, const std::byte* a, double ca, const std::byte* b,
                  double cb, size_t count) {
  const Blend<double> twice{ca, cb};
  const Blend<float> single{static_cast<float>(ca), static_cast<float>(cb)};
  switch (dtype) {
    case DType::kFloat64: return map_floats<Float64Form>(twice, out, a, b, count);
    case DType::kFloat32: return map_floats<Float32AsDouble>(twice, out, a, b, count);
    case DType::kFloat16: return map_floats<Float16Form>(single, out, a, b, count);
    case DType::kBfloat16: return map_floats<Bfloat16Form>(single, out, a, b, count);
    default: check_failed(__FILE__, __LINE__, "blend of a dtype that is not floating");
  }
}

}  // namespace hvd::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hvd::kernels {

HWY_EXPORT(scale_array);
HWY_EXPORT(divide_array);
HWY_EXPORT(multiply);
HWY_EXPORT(blend_arrays);

void scale(DType dtype, std::byte* data, size_t count, double factor) {
  HWY_DYNAMIC_DISPATCH(scale_array)(dtype, data, count, factor);
}

void divide(DType dtype, std::byte* data, size_t count, uint64_t divisor) {
  HWY_DYNAMIC_DISPATCH(divide_array)(dtype, data, count, divisor);
}

Products products(DType dtype, const std::byte* a, const std::byte* b, size_t count) {
  return HWY_DYNAMIC_DISPATCH(multiply)(dtype, a, b, count);
}

void blend(DType dtype, std::byte* out, const std::byte* a, double ca, const std::byte* b,
           double cb, size_t count) {
  HWY_DYNAMIC_DISPATCH(blend_arrays)(dtype, out, a, ca, b, cb, count);
}

}  // namespace hvd::kernels
#endif
