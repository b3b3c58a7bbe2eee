// SPDX-License-Identifier: Apache-2.0
#include "collectives/identity.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace hvd {
namespace {

template <typename T>
void fill(Bytes data, T value) {
  for (size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    std::memcpy(data.data() + at, &value, sizeof(T));
  }
}

template <typename T>
void fill_number(ReduceOp op, Bytes data) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::kProduct: return fill(data, T{1});
    case ReduceOp::kMin:
      return fill(data, Limits::has_infinity ? Limits::infinity() : Limits::max());
    case ReduceOp::kMax:
      return fill(data,
                  Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest());
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
    case ReduceOp::kAdasum: break;
  }
  std::fill(data.begin(), data.end(), std::byte{0});
}

// `one` and `infinity` are bit patterns. The patterns of 0 and of the sign are the same for float16
// and bfloat16.
void fill_half(ReduceOp op, Bytes data, uint16_t one, uint16_t infinity) {
  switch (op) {
    case ReduceOp::kProduct: return fill(data, one);
    case ReduceOp::kMin: return fill(data, infinity);
    case ReduceOp::kMax: return fill(data, static_cast<uint16_t>(infinity | 0x8000));
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
    case ReduceOp::kAdasum: return fill(data, uint16_t{0});
  }
}

}  // namespace

void fill_identity(ReduceOp op, DType dtype, Bytes data) {
  switch (dtype) {
    case DType::kUint8: return fill_number<uint8_t>(op, data);
    case DType::kInt8: return fill_number<int8_t>(op, data);
    case DType::kUint16: return fill_number<uint16_t>(op, data);
    case DType::kInt16: return fill_number<int16_t>(op, data);
    case DType::kUint32: return fill_number<uint32_t>(op, data);
    case DType::kInt32: return fill_number<int32_t>(op, data);
    case DType::kUint64: return fill_number<uint64_t>(op, data);
    case DType::kInt64: return fill_number<int64_t>(op, data);
    case DType::kFloat32: return fill_number<float>(op, data);
    case DType::kFloat64: return fill_number<double>(op, data);
    case DType::kFloat16: return fill_half(op, data, 0x3c00, 0x7c00);
    case DType::kBfloat16: return fill_half(op, data, 0x3f80, 0x7f80);
    case DType::kBool: {
      const bool truth = op == ReduceOp::kProduct || op == ReduceOp::kMin;
      return fill(data, static_cast<uint8_t>(truth));
    }
  }
}

}  // namespace hvd
