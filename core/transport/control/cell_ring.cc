// SPDX-License-Identifier: Apache-2.0
#include "transport/control/cell_ring.h"

#include <algorithm>
#include <cstring>

namespace hvd {
namespace {

constexpr uint32_t word_of(uint32_t cell, size_t bytes) {
  return (cell + 1) << 8 | static_cast<uint32_t>(bytes);
}

}  // namespace

size_t CellWriter::write_some(ConstBytes out) {
  size_t done = 0;
  while (done < out.size()) {
    if (written_ - read_ == CellRing::kCells) {
      read_ = ring_.read.load(std::memory_order_acquire);
      if (written_ - read_ == CellRing::kCells) break;
    }
    CellRing::Cell& cell = ring_.cells[written_ % CellRing::kCells];
    const size_t piece = std::min(out.size() - done, CellRing::kCellBytes);
    std::memcpy(cell.bytes.data(), out.data() + done, piece);
    cell.word.store(word_of(written_, piece), std::memory_order_release);
    ++written_;
    done += piece;
  }
  return done;
}

ConstBytes CellReader::peek() const {
  const CellRing::Cell& cell = ring_.cells[read_ % CellRing::kCells];
  const uint32_t word = cell.word.load(std::memory_order_acquire);
  if ((word ^ word_of(read_, 0)) > 0xff) return {};
  return ConstBytes(cell.bytes).first(std::min<size_t>(word & 0xff, CellRing::kCellBytes));
}

void CellReader::release() { ring_.read.store(++read_, std::memory_order_release); }

}  // namespace hvd
