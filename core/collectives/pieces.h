// SPDX-License-Identifier: Apache-2.0
// Pieces: scattered memory that a collective treats as one buffer, the pieces one after the other.
// So one collective reduces a batch of many tensors without first copying them into one buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace hvd {

// One tensor: a collective reads `in` and writes `out`. They are the same memory or do not overlap;
// in the second case `in` keeps its content. Both are aligned to their elements. `bytes` is a whole
// number of elements and may be 0.
struct Piece {
  const std::byte* in;
  std::byte* out;
  size_t bytes;
};

// Translates an offset in the one buffer to a place in the pieces. It borrows the list, which must
// outlive it. Offsets are bytes from the front of the first piece.
class Pieces {
 public:
  explicit Pieces(std::span<const Piece> pieces);

  size_t total() const { return total_; }

  // The rest, from `offset` on, of the piece that holds `offset`; at most `most` bytes. `offset` is
  // less than total().
  Piece at(size_t offset, size_t most) const { return part(index_of(offset), offset, most); }

  // Calls visit(part) for the parts of pieces that make up the range, in order. No part is empty.
  template <typename Visit>
  void for_each(size_t offset, size_t bytes, Visit visit) const {
    for (size_t index = index_of(offset); bytes > 0; ++index) {
      const Piece run = part(index, offset, bytes);
      if (run.bytes > 0) visit(run);
      offset += run.bytes;
      bytes -= run.bytes;
    }
  }

  // Copies the inputs of the range to `to`.
  void copy_from(size_t offset, std::byte* to, size_t bytes) const;
  // Copies `from` to the outputs of the range.
  void copy_to(size_t offset, const std::byte* from, size_t bytes) const;

 private:
  // The piece that holds the byte at `offset`.
  size_t index_of(size_t offset) const {
    if (begin_.empty()) return 0;
    return std::upper_bound(begin_.begin(), begin_.end(), offset) - begin_.begin() - 1;
  }
  Piece part(size_t index, size_t offset, size_t most) const {
    const Piece& piece = pieces_[index];
    const size_t skip = begin_.empty() ? offset : offset - begin_[index];
    return {piece.in + skip, piece.out + skip, std::min(most, piece.bytes - skip)};
  }

  const std::span<const Piece> pieces_;
  // Offset of each piece; empty for a single piece, so that a small allreduce allocates nothing.
  std::vector<size_t> begin_;
  size_t total_ = 0;
};

}  // namespace hvd
