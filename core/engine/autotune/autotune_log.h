// SPDX-License-Identifier: Apache-2.0
// The CSV file that HOROVOD_AUTOTUNE_LOG names, on rank 0.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "net/fd.h"

namespace hvd {

class AutotuneLog {
 public:
  // Replaces the file by one that contains the header. A failure contains the path.
  static Result<AutotuneLog> create(const std::string& path);

  // Each row is in the file when the call returns.
  Status append(std::span<const std::string> rows);

 private:
  AutotuneLog(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
};

}  // namespace hvd
