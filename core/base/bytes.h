// Views of raw memory. A tensor below the engine is a Bytes and a DType, nothing more.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace hvd {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Largest multiple of `unit` that is not above `value`; `unit` is not zero.
constexpr size_t round_down(size_t value, size_t unit) { return value - value % unit; }

// Smallest multiple of `unit` that is not below `value`; `unit` is not zero.
constexpr size_t round_up(size_t value, size_t unit) { return round_down(value + unit - 1, unit); }

// memcpy that also takes the null pointers of empty views.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace hvd
