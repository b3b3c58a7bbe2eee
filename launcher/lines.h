// SPDX-License-Identifier: Apache-2.0
// Lines out of what a rank writes. Pure: bytes in, pieces of text out, and every byte comes out
// again as it went in, whatever it means.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace hvd::launcher {

inline constexpr size_t kLongestLine = size_t{1} << 20;

// A line ends after "\n", "\r" or "\r\n"; so a progress bar shows as it moves. A longer line than
// kLongestLine is cut, between two characters if it is UTF-8, and goes on as one more line.
class LineSplitter {
 public:
  // `begins` is false only for a "\n" whose "\r" was given out before it arrived.
  using Emit = FunctionRef<void(std::string_view piece, bool begins)>;

  void feed(std::string_view bytes, Emit emit);
  // The end of the stream: the rest as a line, with the newline that it lacks.
  void finish(Emit emit);

 private:
  void emit_line(std::string_view line, Emit emit);
  void keep(std::string_view bytes, Emit emit);

  std::string rest_;
  bool after_return_ = false;
};

// The last lines of a stream, for a report. Of lines that overwrite each other, each ending with
// "\r", the last one counts; very long ones are cut.
class LastLines {
 public:
  static constexpr size_t kCount = 20;
  static constexpr size_t kWidth = 1000;

  // As LineSplitter gives them out.
  void add(std::string_view piece, bool begins);
  // Without the ends of lines.
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
  bool overwrite_ = false;
};

}  // namespace hvd::launcher
