// SPDX-License-Identifier: Apache-2.0
// The element types that tensors can have. The numbers are part of the C ABI (hvd_dtype) and of the
// wire format: they never change, and new types are added at the end.
//
// This is the only table of sizes and names. Code outside of the core asks hvd_dtype_size().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hvd {

enum class DType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
  kBfloat16 = 10,
  kUint32 = 11,
  kUint64 = 12,
};

inline constexpr int kDTypeCount = 13;

// Bytes of one element; 0 for a number that is not a DType.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool: return 1;
    case DType::kUint16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBfloat16: return 2;
    case DType::kUint32:
    case DType::kInt32:
    case DType::kFloat32: return 4;
    case DType::kUint64:
    case DType::kInt64:
    case DType::kFloat64: return 8;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

// The name that NumPy and the frameworks use: "float32", "bfloat16", "bool".
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kUint8: return "uint8";
    case DType::kInt8: return "int8";
    case DType::kUint16: return "uint16";
    case DType::kInt16: return "int16";
    case DType::kInt32: return "int32";
    case DType::kInt64: return "int64";
    case DType::kFloat16: return "float16";
    case DType::kFloat32: return "float32";
    case DType::kFloat64: return "float64";
    case DType::kBool: return "bool";
    case DType::kBfloat16: return "bfloat16";
    case DType::kUint32: return "uint32";
    case DType::kUint64: return "uint64";
  }
  return "unknown dtype";
}

}  // namespace hvd
