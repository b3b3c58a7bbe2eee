// SPDX-License-Identifier: Apache-2.0
// Blocks: offsets in a buffer that holds one block per rank, in rank order and without gaps. Blocks
// may differ in size and may be empty. All sizes and offsets are bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace hvd {

class Blocks {
 public:
  // `bytes_of[r]` is the size of rank r's block. It is copied.
  explicit Blocks(std::span<const size_t> bytes_of) {
    begin_.reserve(bytes_of.size() + 1);
    begin_.push_back(0);
    for (const size_t bytes : bytes_of) begin_.push_back(begin_.back() + bytes);
  }

  size_t total() const { return begin_.back(); }
  size_t offset(int rank) const { return begin_[rank]; }
  size_t bytes(int rank) const { return begin_[rank + 1] - begin_[rank]; }
  size_t largest() const {
    size_t largest = 0;
    for (size_t rank = 0; rank + 1 < begin_.size(); ++rank) {
      largest = std::max(largest, begin_[rank + 1] - begin_[rank]);
    }
    return largest;
  }

  Bytes of(Bytes whole, int rank) const { return whole.subspan(offset(rank), bytes(rank)); }
  ConstBytes of(ConstBytes whole, int rank) const {
    return whole.subspan(offset(rank), bytes(rank));
  }

 private:
  std::vector<size_t> begin_;
};

// Copies `from` to `to`, which have equal sizes. They are the same memory, in which case nothing
// happens, or do not overlap. Both may be empty.
inline void copy_bytes(Bytes to, ConstBytes from) {
  if (to.data() != from.data()) copy_bytes(to.data(), from.data(), from.size());
}

// At most `most` bytes of `all` from `offset` on; empty when `offset` is at or behind the end.
template <typename Byte>
std::span<Byte> segment_at(std::span<Byte> all, size_t offset, size_t most) {
  if (offset >= all.size()) return {};
  return all.subspan(offset, std::min(most, all.size() - offset));
}

}  // namespace hvd
