#include "engine/timeline/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hvd {
namespace {

constexpr int64_t kPage = 4096;  // or a part of a page, where pages are larger
constexpr std::string_view kClosing = "\n]\n";
// Every page keeps room for the closing, and the last one has its bracket there.
constexpr int64_t kUsable = kPage - 4;
constexpr int64_t kLeastGrowth = int64_t{1} << 20;
constexpr int64_t kMostGrowth = int64_t{64} << 20;
constexpr std::string_view kBetween = ",\n";
static_assert(TraceFile::kLongestEvent + kBetween.size() <= kUsable);

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path, std::string_view first) {
  // Without O_NONBLOCK a named pipe would hold us until somebody reads it.
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd.valid()) {
    return io_error(fmt::format("timeline: cannot open \"{}\" for writing", path), errno);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return invalid_argument(fmt::format(
        "timeline: \"{}\" is not a regular file; a timeline needs one, it is written in place",
        path));
  }
  TraceFile file(path, std::move(fd));
  std::string page = fmt::format("[\n{}", first);
  if (first.size() > kLongestEvent) return invalid_argument("timeline: first event is too long");
  file.written_ = static_cast<int64_t>(page.size());
  page.resize(kPage, ' ');
  page.back() = ']';
  HVD_TRY(file.write(page, 0));
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
  HVD_TRY(write(block_, written_));
  if (gives_way_) sched_yield();
  written_ += static_cast<int64_t>(block_.size());
  block_.clear();
  return Status::ok();
}

// Blank pages first: behind the bracket they do no harm, and if the disk is full they go again.
Status TraceFile::grow() {
  const int64_t end = end_ + std::clamp(end_, kLeastGrowth, kMostGrowth);
  const std::string blanks(kBlock, ' ');
  for (int64_t at = end_; at < end; at += kBlock) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(kBlock, end - at));
    if (Status written = write(std::string_view(blanks).substr(0, bytes), at); !written.is_ok()) {
      (void)!::ftruncate(fd_.get(), end_);
      return written;
    }
    if (gives_way_) sched_yield();  // and not between the next two
  }
  HVD_TRY(write("]", end - 1));
  HVD_TRY(write(" ", end_ - 1));
  end_ = end;
  return Status::ok();
}

Status TraceFile::close() {
  HVD_TRY(flush());
  HVD_TRY(write(kClosing, written_));
  end_ = written_ + static_cast<int64_t>(kClosing.size());
  if (::ftruncate(fd_.get(), end_) != 0) return failure(errno);
  const int fd = fd_.release();
  // Some file systems tell only now that the disk is full.
  return ::close(fd) == 0 ? Status::ok() : failure(errno);
}

Status TraceFile::write(std::string_view bytes, int64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failure(written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(written));
    at += written;
  }
  return Status::ok();
}

Status TraceFile::failure(int error_number) const {
  return io_error(fmt::format("timeline: cannot write \"{}\"", path_), error_number);
}

}  // namespace hvd
