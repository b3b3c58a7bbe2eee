// SPDX-License-Identifier: Apache-2.0
// Chunks: a buffer cut into parts of equal size, in whole elements. The first parts have one
// element more when the division leaves a remainder. With fewer elements than parts the last parts
// are empty. For ring and halving-doubling; Slices (slices.h) cuts along cache lines instead.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/bytes.h"

namespace hvd {

class Chunks {
 public:
  // `bytes` is a multiple of `element_size`; `parts` is at least 1.
  Chunks(size_t bytes, int parts, size_t element_size)
      : element_size_(element_size),
        each_(bytes / element_size / parts),
        longer_(bytes / element_size % parts) {}

  // Offset in bytes of chunk `index`; for index = parts, the size of the buffer.
  size_t begin(int index) const {
    return (index * each_ + std::min(static_cast<size_t>(index), longer_)) * element_size_;
  }

  Bytes of(Bytes data, int index) const { return of(data, index, index + 1); }
  // Chunks first … last - 1, which are adjacent.
  Bytes of(Bytes data, int first, int last) const {
    return data.subspan(begin(first), begin(last) - begin(first));
  }

 private:
  size_t element_size_;
  size_t each_;    // elements in each chunk
  size_t longer_;  // number of chunks, the first ones, that have one element more
};

}  // namespace hvd
