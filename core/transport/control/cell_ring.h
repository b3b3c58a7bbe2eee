// SPDX-License-Identifier: Apache-2.0
// A ring of cache lines in shared memory from one rank to another, for messages that mostly fit one
// line. A line carries both the bytes and the word that says they are there, so that a message
// costs its writer one line and its reader one line, whatever was there before: a ring with a
// counter beside it (pipe.h), better for large data, moves twice as many, and a line takes up to
// 250 ns from core to core.
//
// Waits for nothing, and wakes nobody: that is the doorbell's affair.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace hvd {

// In shared memory, zero at first.
struct CellRing {
  static constexpr size_t kCells = 256;
  static constexpr size_t kCellBytes = 60;

  struct alignas(64) Cell {
    // The lowest byte is the number of bytes; above it the number of the cell, counted from 1 for
    // ever, so that what lies there from the round before is not taken for news.
    std::atomic<uint32_t> word;
    std::array<std::byte, kCellBytes> bytes;
  };

  alignas(64) std::atomic<uint32_t> read;  // cells that the reader has freed
  std::array<Cell, kCells> cells;
};

class CellWriter {
 public:
  explicit CellWriter(CellRing& ring) : ring_(ring) {}

  // Takes bytes from the front of `out` and returns how many; 0 when there is no room now.
  size_t write_some(ConstBytes out);

 private:
  CellRing& ring_;
  uint32_t written_ = 0;
  uint32_t read_ = 0;  // as far as it is known here: looked up only when the ring seems full
};

class CellReader {
 public:
  explicit CellReader(CellRing& ring) : ring_(ring) {}

  // The bytes of the next cell, where they lie; empty when there is none. release() frees it.
  ConstBytes peek() const;
  void release();

 private:
  CellRing& ring_;
  uint32_t read_ = 0;
};

}  // namespace hvd
