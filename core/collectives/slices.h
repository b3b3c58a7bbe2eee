// SPDX-License-Identifier: Apache-2.0
// Slices: a buffer cut into one slice per rank along cache lines, so that two ranks never write to
// the same line. Every element size divides a line, so no element is cut. All slices have the same
// size except the last ones, which are shorter or empty. Sizes and offsets are bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/bytes.h"

namespace hvd {

class Slices {
 public:
  static constexpr size_t kLine = 64;  // bytes of a cache line

  Slices(size_t bytes, int count)
      : bytes_(bytes), width_(round_up((bytes + count - 1) / count, kLine)) {}

  size_t begin(int slice) const { return std::min(bytes_, width_ * static_cast<size_t>(slice)); }
  size_t size(int slice) const { return begin(slice + 1) - begin(slice); }
  Bytes of(Bytes whole, int slice) const { return whole.subspan(begin(slice), size(slice)); }

 private:
  size_t bytes_;
  size_t width_;
};

}  // namespace hvd
