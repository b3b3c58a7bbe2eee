// Views of raw memory. A tensor below the engine is a Bytes and a DType, nothing more.
#pragma once

#include <cstddef>
#include <span>

namespace hvd {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// Largest multiple of `unit` that is not above `value`; `unit` is not zero.
constexpr size_t round_down(size_t value, size_t unit) { return value - value % unit; }

// Smallest multiple of `unit` that is not below `value`; `unit` is not zero.
constexpr size_t round_up(size_t value, size_t unit) { return round_down(value + unit - 1, unit); }

}  // namespace hvd
