// SPDX-License-Identifier: Apache-2.0
// A JSON array on disk that grows event by event and is valid JSON whenever the process is killed.
//
// The kernel copies a write page by page, and a SIGKILL ends it between two pages (on tmpfs 57 of
// 60 writes of 256 KiB that were hit were cut). So the file is made of pages of 4096 bytes; no
// event crosses a page boundary, the rest of a page is blank, and the closing bracket is far behind
// the events, after blank pages:
//
//   [ event, event   , event, event   , event                                               ]
//   '---- page ----''---- page ----''---- page ----''---- page ----''---- page ----''-- page --'
//
// The text is valid however many pages of a block of events have been written. The blank pages are
// already on disk, so a full disk does not break the file either.
//
// Two moments remain in which two places of the file change: the bracket moves when the blank pages
// are used up (after 1 MiB, then whenever the file has doubled, or grown by 64 MiB), and close()
// cuts off the blank pages. Each lasts for one system call.
//
// All of this is true of the file that OutputFile writes to. If that is a local file, the file at
// `path` is empty until close().
//
// One thread at a time may use it.
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
  // In bytes; add() fails for more.
  static constexpr size_t kLongestEvent = 4000;
  // Bytes of one write.
  static constexpr size_t kBlock = size_t{64} << 10;

  // Replaces the file at `path`. `first` is the first event.
  static Result<TraceFile> create(const std::string& path, std::string_view first,
                                  FileCalls calls = {});

  // Adds one JSON object, `event` followed by `rest`. It is in the file after the next flush().
  Status add(std::string_view event, std::string_view rest = {});
  Status flush();
  // Bytes that wait for flush().
  size_t unwritten() const { return block_.size(); }
  // Whether to yield the core after every block, some 40 us of work.
  void set_gives_way(bool gives_way) { gives_way_ = gives_way; }
  // Flushes and cuts off the blank pages. Without it the file is valid as well, but longer.
  Status close();

  const OutputFile& output() const { return output_; }

 private:
  explicit TraceFile(OutputFile output) : output_(std::move(output)) {}
  Status grow();
  Status cut_off_blanks();

  OutputFile output_;
  int64_t written_ = 0;  // offset of the end of the events on disk; block_ continues there
  int64_t end_ = 0;      // size of the file; the bracket is its last byte
  std::string block_;
  bool gives_way_ = false;
};

}  // namespace hvd
