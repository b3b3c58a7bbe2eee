// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/log.h"

namespace hvd {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 20;

Status cannot_open(const std::string& path, int error_number) {
  return io_error(fmt::format("timeline: cannot open \"{}\" for writing", path), error_number);
}

Result<Fd> open_empty(const std::string& path) {
  // Without O_NONBLOCK the open of a named pipe would wait for a reader.
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd.valid()) return cannot_open(path, errno);
  return fd;
}

Status write_failure(const std::string& path, int error_number) {
  return io_error(fmt::format("timeline: cannot write \"{}\"", path), error_number);
}

Status close_checked(Fd fd, const std::string& path) {
  // Some file systems report only here that the disk is full or that an upload failed.
  return ::close(fd.release()) == 0 ? Status::ok() : write_failure(path, errno);
}

}  // namespace

bool OutputFile::is_on_object_store(const std::string& path) {
  std::error_code unknown;  // without a current folder the path stays as it is
  const std::string absolute = std::filesystem::absolute(path, unknown).lexically_normal();
  return absolute.starts_with("/dbfs/") || absolute.starts_with("/Volumes/");
}

Result<OutputFile> OutputFile::create(const std::string& path, FileCalls calls) {
  HVD_TRY_ASSIGN(Fd fd, open_empty(path));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return invalid_argument(fmt::format(
        "timeline: \"{}\" is not a regular file; a timeline needs one, it is written in place",
        path));
  }
  OutputFile file(path, std::move(fd), calls);
  // The name is checked first: such a mount may accept a write out of order and fail at the upload.
  if (is_on_object_store(path) || !file.takes_writes_anywhere()) {
    HVD_TRY(file.move_to_local_file());
  }
  return file;
}

// Writes two bytes in order, the first one again, and removes both.
bool OutputFile::takes_writes_anywhere() {
  return calls_.pwrite(fd_.get(), "  ", 2, 0) == 2 && calls_.pwrite(fd_.get(), " ", 1, 0) == 1 &&
         calls_.ftruncate(fd_.get(), 0) == 0;
}

Status OutputFile::move_to_local_file() {
  // Discards what the trial wrote. Errors of the mount appear here, before training starts.
  HVD_TRY(close_checked(std::move(fd_), path_));
  HVD_TRY_ASSIGN(Fd emptied, open_empty(path_));
  HVD_TRY(close_checked(std::move(emptied), path_));

  const char* folder = std::getenv("TMPDIR");
  local_path_ = fmt::format("{}/horovod_timeline_XXXXXX.json",
                            folder == nullptr || *folder == '\0' ? "/tmp" : folder);
  constexpr int kSuffix = 5;  // ".json"
  fd_ = Fd(::mkostemps(local_path_.data(), kSuffix, O_CLOEXEC));
  if (!fd_.valid()) return cannot_open(local_path_, errno);
  calls_ = {};  // a local file system accepts all calls
  HVD_LOG(kInfo, "timeline: \"{}\" takes sequential writes only; events go to \"{}\" until the end",
          path_, local_path_);
  return Status::ok();
}

Status OutputFile::write(std::string_view bytes, int64_t at) {
  const std::string& path = local_path_.empty() ? path_ : local_path_;
  while (!bytes.empty()) {
    const ssize_t written = calls_.pwrite(fd_.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return write_failure(path, written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<size_t>(written));
    at += written;
  }
  return Status::ok();
}

Status OutputFile::truncate(int64_t size) {
  return calls_.ftruncate(fd_.get(), size) == 0 ? Status::ok() : write_failure(path_, errno);
}

Status OutputFile::close() {
  HVD_TRY(close_checked(std::move(fd_), local_path_.empty() ? path_ : local_path_));
  if (local_path_.empty()) return Status::ok();
  if (Status copied = copy_to_path(); !copied.is_ok()) {
    return {copied.code(),
            fmt::format("{}; its events are in \"{}\"", copied.message(), local_path_)};
  }
  ::unlink(local_path_.c_str());
  return Status::ok();
}

Status OutputFile::copy_to_path() {
  const Fd from(::open(local_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.valid()) return io_error("timeline: cannot read its local file", errno);
  HVD_TRY_ASSIGN(Fd to, open_empty(path_));
  std::vector<char> block(kCopyBytes);
  while (true) {
    const ssize_t size = ::read(from.get(), block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return io_error("timeline: cannot read its local file", errno);
    if (size == 0) break;
    std::string_view rest(block.data(), static_cast<size_t>(size));
    while (!rest.empty()) {
      const ssize_t written = ::write(to.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return write_failure(path_, written < 0 ? errno : ENOSPC);
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }
  return close_checked(std::move(to), path_);
}

}  // namespace hvd
