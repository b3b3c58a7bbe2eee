// SPDX-License-Identifier: Apache-2.0
#include "launcher/lines.h"

#include <algorithm>
#include <utility>

namespace hvd::launcher {
namespace {

size_t find_end(std::string_view text) {
  // Two calls of memchr: find_first_of tests each byte separately and takes ten times as long.
  const size_t newline = text.find('\n');
  const size_t end = text.substr(0, newline).find('\r');
  return end != std::string_view::npos ? end : newline;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The largest position up to `limit` that is not inside a UTF-8 character; `limit` if the text is
// not UTF-8.
size_t cut_position(std::string_view text, size_t limit) {
  for (size_t cut = limit; cut > 0 && limit - cut < 4; --cut) {
    if (!is_continuation(text[cut])) return cut;
  }
  return limit;
}

}  // namespace

// A "\r" at the end of `bytes` ends a line at once; if "\n" is the next byte, it is emitted alone
// with begins == false, so that it gets no prefix.
void LineSplitter::feed(std::string_view bytes, Emit emit) {
  if (after_return_ && !bytes.empty()) {
    after_return_ = false;
    if (bytes.front() == '\n') {
      emit(bytes.substr(0, 1), false);
      bytes.remove_prefix(1);
    }
  }
  while (!bytes.empty()) {
    size_t end = find_end(bytes);
    if (end == std::string_view::npos) return keep(bytes, emit);
    const bool returns = bytes[end++] == '\r';
    if (returns && end < bytes.size() && bytes[end] == '\n') ++end;
    after_return_ = returns && end == bytes.size() && bytes[end - 1] == '\r';
    emit_line(bytes.substr(0, end), emit);
    bytes.remove_prefix(end);
  }
}

void LineSplitter::emit_line(std::string_view line, Emit emit) {
  if (rest_.empty() && line.size() <= kLongestLine) return emit(line, true);
  keep(line, emit);
  emit(rest_, true);
  rest_.clear();
}

// Buffers an unfinished line and emits parts of it when it becomes too long.
void LineSplitter::keep(std::string_view bytes, Emit emit) {
  rest_ += bytes;
  while (rest_.size() > kLongestLine) {
    const size_t cut = cut_position(rest_, kLongestLine);
    emit(rest_.substr(0, cut) + "\n", true);
    rest_.erase(0, cut);
  }
}

void LineSplitter::finish(Emit emit) {
  if (!rest_.empty()) emit(rest_ + "\n", true);
  rest_.clear();
}

void LastLines::add(std::string_view piece, bool begins) {
  const bool overwrite = std::exchange(overwrite_, piece.ends_with('\r'));
  if (!begins) return;
  if (overwrite && !lines_.empty()) lines_.pop_back();
  while (piece.ends_with('\n') || piece.ends_with('\r')) piece.remove_suffix(1);
  lines_.emplace_back(piece.substr(0, kWidth));
  if (lines_.size() > kCount) lines_.pop_front();
}

}  // namespace hvd::launcher
