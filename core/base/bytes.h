// SPDX-License-Identifier: Apache-2.0
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

// memcpy that also takes the null pointers of empty views, and that is quick between pages. The C
// library copies large blocks by `rep movsb`, which on AMD Zen 3 runs at a fifth of the speed when
// both sides lie at about the same place in their pages, as a large buffer and a slot in shared
// memory do: 1 MiB between two ranks took 270 us instead of 70. Vector registers have no such case.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kBlock = 128;  // what compilers copy inline
  for (; bytes >= kBlock; bytes -= kBlock, to += kBlock, from += kBlock) {
    std::memcpy(to, from, kBlock);
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace hvd
