// SPDX-License-Identifier: Apache-2.0
// A JSON array on disk that grows event by event and is valid JSON whenever its writer is killed.
//
// The kernel copies a write page by page, and a SIGKILL ends it between two pages (on tmpfs 57 of
// 60 writes of 256 KiB that were hit were cut). So the file is made of pages of 4096 bytes; no
// event crosses from one page to the next, what is left of a page is blank, and the closing bracket
// stands far behind the events, after blank pages:
//
//   [ event, event   , event, event   , event                                               ]
//   '---- page ----''---- page ----''---- page ----''---- page ----''---- page ----''-- page --'
//
// However many pages of a block of events have arrived, the text is whole. The blank pages are
// already on disk, so a full disk does not break it either.
//
// Left are two moments that change two places: the bracket moves on when the blank pages are used
// up (after 1 MiB, then whenever the file has doubled, or grown by 64 MiB), and close() cuts off
// what is blank. Each lasts as long as a system call.
//
// All of this holds for the file that OutputFile writes to; where that is a local one, the file at
// `path` is empty until close().
//
// Not for several threads at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/timeline/output_file.h"

namespace hvd {

class TraceFile {
 public:
  // What add() accepts at most.
  static constexpr size_t kLongestEvent = 4000;
  // As much is written at a time.
  static constexpr size_t kBlock = size_t{64} << 10;

  // Replaces what was at `path`. `first` is the first event.
  static Result<TraceFile> create(const std::string& path, std::string_view first,
                                  FileCalls calls = {});

  // Adds one JSON object, which may come in two parts. It is in the file after the next flush().
  Status add(std::string_view event, std::string_view rest = {});
  Status flush();
  // How much waits for flush().
  size_t unwritten() const { return block_.size(); }
  // Whether other threads get the core after every block, some 40 us of work.
  void set_gives_way(bool gives_way) { gives_way_ = gives_way; }
  // Flushes and cuts off what is blank. Without it the file is as valid, but longer.
  Status close();

  const OutputFile& output() const { return output_; }

 private:
  explicit TraceFile(OutputFile output) : output_(std::move(output)) {}
  Status grow();
  Status cut_off_blanks();

  OutputFile output_;
  int64_t written_ = 0;  // events end here, and block_ continues
  int64_t end_ = 0;      // the bracket is the last byte before this
  std::string block_;
  bool gives_way_ = false;
};

}  // namespace hvd
