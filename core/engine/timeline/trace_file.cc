// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/trace_file.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace hvd {
namespace {

constexpr int64_t kPage = 4096;  // a divisor of the page size on machines with larger pages
constexpr std::string_view kClosing = "\n]\n";
// Every page keeps room for the closing bracket; the last page has it there.
constexpr int64_t kUsable = kPage - 4;
constexpr int64_t kLeastGrowth = int64_t{1} << 20;
constexpr int64_t kMostGrowth = int64_t{64} << 20;
constexpr std::string_view kBetween = ",\n";
static_assert(TraceFile::kLongestEvent + kBetween.size() <= kUsable);

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path, std::string_view first,
                                    FileCalls calls) {
  HVD_TRY_ASSIGN(OutputFile output, OutputFile::create(path, calls));
  TraceFile file(std::move(output));
  std::string page = fmt::format("[\n{}", first);
  if (first.size() > kLongestEvent) return invalid_argument("timeline: first event is too long");
  file.written_ = static_cast<int64_t>(page.size());
  page.resize(kPage, ' ');
  page.back() = ']';
  HVD_TRY(file.output_.write(page, 0));
  file.end_ = kPage;
  return file;
}

Status TraceFile::add(std::string_view event, std::string_view rest) {
  const size_t length = event.size() + rest.size();
  if (length > kLongestEvent) {
    return invalid_argument(fmt::format("timeline: an event has {} bytes", length));
  }
  const auto bytes = static_cast<int64_t>(kBetween.size() + length);
  const int64_t at = written_ + static_cast<int64_t>(block_.size());
  if (at % kPage + bytes > kUsable) {
    const int64_t next_page = at - at % kPage + kPage;
    if (next_page < end_) {
      block_.append(static_cast<size_t>(next_page - at), ' ');
    } else {
      HVD_TRY(flush());
      HVD_TRY(grow());
      written_ = next_page;
    }
  }
  block_.append(kBetween).append(event).append(rest);
  return Status::ok();
}

Status TraceFile::flush() {
  HVD_TRY(output_.write(block_, written_));
  if (gives_way_) sched_yield();
  written_ += static_cast<int64_t>(block_.size());
  block_.clear();
  return Status::ok();
}

// Blank pages first: behind the bracket they are harmless, and if the disk is full they are cut off
// again.
Status TraceFile::grow() {
  const int64_t end = end_ + std::clamp(end_, kLeastGrowth, kMostGrowth);
  const std::string blanks(kBlock, ' ');
  for (int64_t at = end_; at < end; at += kBlock) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(kBlock, end - at));
    if (Status written = output_.write(std::string_view(blanks).substr(0, bytes), at);
        !written.is_ok()) {
      (void)output_.truncate(end_);
      return written;
    }
    if (gives_way_) sched_yield();  // here, so that the next two calls are not interrupted
  }
  HVD_TRY(output_.write("]", end - 1));
  HVD_TRY(output_.write(" ", end_ - 1));
  end_ = end;
  return Status::ok();
}

Status TraceFile::close() {
  const Status ended = cut_off_blanks();
  // Also after a failure: the events in the file are complete.
  const Status closed = output_.close();
  return ended.is_ok() ? closed : ended;
}

Status TraceFile::cut_off_blanks() {
  HVD_TRY(flush());
  HVD_TRY(output_.write(kClosing, written_));
  end_ = written_ + static_cast<int64_t>(kClosing.size());
  return output_.truncate(end_);
}

}  // namespace hvd
