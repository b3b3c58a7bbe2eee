// SPDX-License-Identifier: Apache-2.0
// A ring of cache lines in shared memory from one rank to another, for messages that mostly fit
// into one line. A line holds both the bytes and the word that marks them as present, so a message
// moves one cache line from writer to reader. A ring with separate counters (shm/pipe.h), which is
// better for large data, moves two, and a line takes up to 250 ns from core to core.
//
//   cell:  | number of the cell, from 1 (24 bits) | bytes used (8 bits) | 60 bytes |
//
// Nothing here waits or wakes a thread; the doorbell does.
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
    // The lowest byte is the number of bytes. Above it is the number of the cell, counted from 1
    // without end, so that a cell from the previous round is not taken for a new one.
    std::atomic<uint32_t> word;
    std::array<std::byte, kCellBytes> bytes;
  };

  alignas(64) std::atomic<uint32_t> read;  // number of cells that the reader has freed
  std::array<Cell, kCells> cells;
};

// The two ends of a ring. Each belongs to one thread at a time; the ring must outlive both.
class CellWriter {
 public:
  explicit CellWriter(CellRing& ring) : ring_(ring) {}

  // Takes bytes from the front of `out` and returns their number; 0 when there is no room now.
  size_t write_some(ConstBytes out);

 private:
  CellRing& ring_;
  uint32_t written_ = 0;
  uint32_t read_ = 0;  // the last known value of ring_.read, loaded only when the ring seems full
};

class CellReader {
 public:
  explicit CellReader(CellRing& ring) : ring_(ring) {}

  // The bytes of the next cell, in place; empty when there is none. release() frees the cell.
  ConstBytes peek() const;
  void release();

 private:
  CellRing& ring_;
  uint32_t read_ = 0;
};

}  // namespace hvd
