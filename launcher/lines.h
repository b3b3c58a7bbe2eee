// SPDX-License-Identifier: Apache-2.0
// Splits the output of a rank into lines. Pure: bytes in, pieces of text out. Every byte is passed
// on unchanged, whether or not it is valid UTF-8.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace hvd::launcher {

// In bytes. Bounds the memory that a rank without newlines can take.
inline constexpr size_t kLongestLine = size_t{1} << 20;

// A line ends after "\n", "\r" or "\r\n". "\r" counts so that progress bars are shown as they move.
// A line longer than kLongestLine is split, between two characters if it is UTF-8, and continues as
// another line.
class LineSplitter {
 public:
  // `piece` is valid during the call only. `begins`: the piece starts a line and gets a prefix. It
  // is false only for a "\n" that arrives after its "\r" was already emitted.
  using Emit = FunctionRef<void(std::string_view piece, bool begins)>;

  void feed(std::string_view bytes, Emit emit);
  // At the end of the stream: emits the unfinished line and adds the missing newline.
  void finish(Emit emit);

 private:
  void emit_line(std::string_view line, Emit emit);
  void keep(std::string_view bytes, Emit emit);

  std::string rest_;
  bool after_return_ = false;
};

// The last kCount lines of a stream, for the failure report. Of lines that overwrite each other
// (ending with "\r") only the last is kept. Each line is cut at kWidth bytes.
class LastLines {
 public:
  static constexpr size_t kCount = 20;
  static constexpr size_t kWidth = 1000;

  // Takes the arguments of LineSplitter::Emit.
  void add(std::string_view piece, bool begins);
  // Without line ends, oldest first.
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
  bool overwrite_ = false;
};

}  // namespace hvd::launcher
