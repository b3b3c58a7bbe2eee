// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

namespace hvd::testing {

namespace {

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using): no alias can be marked

// A binary format of 1 + exponent_bits + mantissa_bits bits as in IEEE 754.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }
};
constexpr SmallFloat kFloat16{5, 10};
constexpr SmallFloat kBfloat16{8, 7};

double decode(SmallFloat format, uint16_t bits) {
  const int magnitude = bits & 0x7FFF;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  double value;
  if (magnitude > format.infinity()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == format.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << format.mantissa_bits),
                       exponent - format.bias() - format.mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t encode(SmallFloat format, double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<uint16_t>(format.infinity() | 1);
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | format.infinity());
  // The last place of the result: that of the value's power of two, or of the subnormals.
  const int smallest = 1 - format.bias();
  const int exponent = magnitude == 0 ? smallest : std::max(std::ilogb(magnitude), smallest);
  const double places = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // Adding instead of or-ing lets a carry, and the hidden bit of a normal number, reach the
  // exponent; a carry out of the largest number makes infinity.
  const double bits = places + std::ldexp(exponent - smallest, format.mantissa_bits);
  return static_cast<uint16_t>(sign | static_cast<int>(std::min<double>(bits, format.infinity())));
}

// The type in memory (Stored), the type of the arithmetic (Wide), and the conversions.
template <typename T>
struct Number {
  using Stored = T;
  using Wide = T;
  static Wide wide(Stored stored) { return stored; }
  static Stored narrow(Wide wide) { return wide; }
};
struct Float16 {
  using Stored = uint16_t;
  using Wide = float;
  static Wide wide(Stored stored) { return static_cast<float>(decode_float16(stored)); }
  static Stored narrow(Wide wide) { return encode_float16(wide); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  using Wide = float;
  static Wide wide(Stored stored) { return static_cast<float>(decode_bfloat16(stored)); }
  static Stored narrow(Wide wide) { return encode_bfloat16(wide); }
};
struct Bool {
  using Stored = uint8_t;
  using Wide = bool;
  static Wide wide(Stored stored) { return stored != 0; }
  static Stored narrow(Wide wide) { return wide ? 1 : 0; }
};

template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kUint8: return f(Number<uint8_t>());
    case DType::kInt8: return f(Number<int8_t>());
    case DType::kUint16: return f(Number<uint16_t>());
    case DType::kInt16: return f(Number<int16_t>());
    case DType::kUint32: return f(Number<uint32_t>());
    case DType::kInt32: return f(Number<int32_t>());
    case DType::kUint64: return f(Number<uint64_t>());
    case DType::kInt64: return f(Number<int64_t>());
    case DType::kFloat16: return f(Float16());
    case DType::kBfloat16: return f(Bfloat16());
    case DType::kFloat32: return f(Number<float>());
    case DType::kFloat64: return f(Number<double>());
    case DType::kBool: break;
  }
  return f(Bool());
}

template <class Type>
typename Type::Stored stored_at(ConstBytes data, size_t index) {
  typename Type::Stored stored;
  std::memcpy(&stored, data.data() + index * sizeof(stored), sizeof(stored));
  return stored;
}
template <class Type>
typename Type::Wide wide_at(ConstBytes data, size_t index) {
  return Type::wide(stored_at<Type>(data, index));
}
template <class Type>
void put(Values& data, size_t index, typename Type::Wide value) {
  const auto stored = Type::narrow(value);
  std::memcpy(data.data() + index * sizeof(stored), &stored, sizeof(stored));
}

template <typename T>
T combine_two(kernels::Combine combine, T a, T b) {
  const bool sum = combine == kernels::Combine::kSum;
  const bool product = combine == kernels::Combine::kProduct;
  const bool min = combine == kernels::Combine::kMin;
  if constexpr (std::is_same_v<T, bool>) {
    return min || product ? a && b : a || b;
  } else if constexpr (std::is_integral_v<T>) {
    // 64-bit two's complement arithmetic gives the low bits of every narrower sum and product.
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    if (sum) return static_cast<T>(x + y);
    if (product) return static_cast<T>(x * y);
  } else {
    if (sum) return a + b;
    if (product) return a * b;
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return min ? std::min(a, b) : std::max(a, b);
}

template <typename T>
T scale_one(T value, double factor) {
  if constexpr (std::is_same_v<T, bool>) {
    return value && factor != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else {
    const double scaled = std::trunc(static_cast<double>(value) * factor);
    if (std::isnan(scaled)) return 0;
    if (scaled <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    if (scaled >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    return static_cast<T>(scaled);
  }
}

template <typename T>
T divide_one(T value, uint64_t divisor) {
  if constexpr (std::is_same_v<T, bool>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else {
    return static_cast<T>(static_cast<Int128>(value) / static_cast<Int128>(divisor));
  }
}

// data[i] = f(data[i])
template <class F>
Values each(DType dtype, Values data, F&& f) {
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    for (size_t i = 0; i < data.size() / size_of(dtype); ++i) {
      put<Type>(data, i, f(wide_at<Type>(data, i)));
    }
  });
  return data;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-10;
    case DType::kBfloat16: return 0x1p-7;
    case DType::kFloat32: return 0x1p-23;
    case DType::kFloat64: return 0x1p-52;
    default: return 0;
  }
}

bool agree(double actual, double expected, double tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (actual == expected) return true;
  return std::fabs(actual - expected) <= tolerance * std::max(1.0, std::fabs(expected)) &&
         !std::isinf(expected);
}

// Compares element by element; `equal(Type(), index)` decides.
template <class Equal>
::testing::AssertionResult compare(DType dtype, ConstBytes actual, ConstBytes expected,
                                   Equal&& equal) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " bytes instead of " << expected.size();
  }
  return with_type(dtype, [&](auto type) -> ::testing::AssertionResult {
    for (size_t i = 0; i < actual.size() / size_of(dtype); ++i) {
      if (equal(type, i)) continue;
      return ::testing::AssertionFailure()
             << fmt::format("{} element {} of {} is {:.17g} instead of {:.17g}", to_string(dtype),
                            i, actual.size() / size_of(dtype), number_at(dtype, actual, i),
                            number_at(dtype, expected, i));
    }
    return ::testing::AssertionSuccess();
  });
}

}  // namespace

uint16_t encode_float16(double value) { return encode(kFloat16, value); }
uint16_t encode_bfloat16(double value) { return encode(kBfloat16, value); }
double decode_float16(uint16_t bits) { return decode(kFloat16, bits); }
double decode_bfloat16(uint16_t bits) { return decode(kBfloat16, bits); }

Values random_values(DType dtype, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values data(count * size_of(dtype));
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    using Wide = typename Type::Wide;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      if constexpr (std::is_same_v<Wide, bool>) {
        const uint64_t true_of_16 = i % 3 == 0 ? 1 : i % 3 == 1 ? 15 : 8;
        put<Type>(data, i, bits % 16 < true_of_16);
      } else if constexpr (std::is_floating_point_v<Wide>) {
        const Wide magnitude = Wide(0.5) * static_cast<Wide>(1 + bits % 4);
        put<Type>(data, i, (bits & 4) != 0 ? -magnitude : magnitude);
      } else {
        const uint64_t odd = (bits >> 60) != 0 ? 1 : 0;
        put<Type>(data, i, static_cast<Wide>(bits | odd));
      }
    }
  });
  return data;
}

Values reference_combine(kernels::Combine combine, DType dtype, std::span<const Values> in) {
  Values out(in[0].size());
  with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    for (size_t i = 0; i < out.size() / size_of(dtype); ++i) {
      auto value = wide_at<Type>(in[0], i);
      for (size_t k = 1; k < in.size(); ++k) {
        value = combine_two(combine, value, wide_at<Type>(in[k], i));
      }
      put<Type>(out, i, value);
    }
  });
  return out;
}

Values reference_scale(DType dtype, Values data, double factor) {
  return each(dtype, std::move(data), [&](auto value) { return scale_one(value, factor); });
}

Values reference_divide(DType dtype, Values data, uint64_t divisor) {
  return each(dtype, std::move(data), [&](auto value) { return divide_one(value, divisor); });
}

Values reference_reduce(ReduceOp op, DType dtype, std::span<const Values> in, double prescale,
                        double postscale) {
  std::vector<Values> scaled(in.begin(), in.end());
  if (prescale != 1.0) {
    for (Values& values : scaled) values = reference_scale(dtype, std::move(values), prescale);
  }
  kernels::Combine combine = kernels::Combine::kSum;
  if (op == ReduceOp::kMin) combine = kernels::Combine::kMin;
  if (op == ReduceOp::kMax) combine = kernels::Combine::kMax;
  if (op == ReduceOp::kProduct) combine = kernels::Combine::kProduct;
  Values result = reference_combine(combine, dtype, scaled);
  if (op == ReduceOp::kAverage) result = reference_divide(dtype, std::move(result), in.size());
  if (postscale != 1.0) result = reference_scale(dtype, std::move(result), postscale);
  return result;
}

::testing::AssertionResult near(DType dtype, ConstBytes actual, ConstBytes expected, int ranks) {
  if (!is_floating(dtype)) return same(dtype, actual, expected);
  const double tolerance = epsilon(dtype) / 2 * ranks;
  return compare(dtype, actual, expected, [&](auto type, size_t i) {
    using Type = decltype(type);
    return agree(static_cast<double>(wide_at<Type>(actual, i)),
                 static_cast<double>(wide_at<Type>(expected, i)), tolerance);
  });
}

::testing::AssertionResult same(DType dtype, ConstBytes actual, ConstBytes expected) {
  return compare(dtype, actual, expected, [&](auto type, size_t i) {
    using Type = decltype(type);
    const size_t size = sizeof(typename Type::Stored);
    if (std::memcmp(actual.data() + i * size, expected.data() + i * size, size) == 0) return true;
    if constexpr (std::is_floating_point_v<typename Type::Wide>) {
      return std::isnan(wide_at<Type>(actual, i)) && std::isnan(wide_at<Type>(expected, i));
    }
    return false;
  });
}

double number_at(DType dtype, ConstBytes data, size_t index) {
  return with_type(
      dtype, [&](auto type) { return static_cast<double>(wide_at<decltype(type)>(data, index)); });
}

}  // namespace hvd::testing
