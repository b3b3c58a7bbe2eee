// SPDX-License-Identifier: Apache-2.0
// The file behind a timeline: `path` itself, or a local file that close() copies to `path`.
//
// A mount of an object store accepts sequential writes only: a write behind or before the end of
// the file, or a change of its length, fails. Databricks mounts its object stores at /dbfs and
// /Volumes and tells users to put timelines there. Such a path is recognised by its name; for any
// other path we try such calls on the new file.
//
// A process that is killed leaves the local file, $TMPDIR/horovod_timeline_*.json, behind.
//
// One thread at a time may use it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/fd.h"

namespace hvd {

// The system calls that such a mount refuses. A test passes calls that fail.
struct FileCalls {
  ssize_t (*pwrite)(int fd, const void* bytes, size_t size, off_t at) = ::pwrite;
  int (*ftruncate)(int fd, off_t size) = ::ftruncate;
};

class OutputFile {
 public:
  // Replaces the file at `path` by an empty one. Fails if `path` cannot be written or is not a
  // regular file.
  static Result<OutputFile> create(const std::string& path, FileCalls calls = {});
  // Whether `path` accepts sequential writes only, judged by its name.
  static bool is_on_object_store(const std::string& path);

  Status write(std::string_view bytes, int64_t at);
  Status truncate(int64_t size);
  // The file at `path` is complete when it returns. If the copy fails, the local file stays, and
  // the message names it.
  Status close();

  const std::string& path() const { return path_; }
  // The file that is written until close(); empty if that is path() itself.
  const std::string& local_path() const { return local_path_; }

 private:
  OutputFile(std::string path, Fd fd, FileCalls calls)
      : path_(std::move(path)), fd_(std::move(fd)), calls_(calls) {}
  bool takes_writes_anywhere();
  Status move_to_local_file();
  Status copy_to_path();

  std::string path_;
  std::string local_path_;
  Fd fd_;
  FileCalls calls_;
};

}  // namespace hvd
