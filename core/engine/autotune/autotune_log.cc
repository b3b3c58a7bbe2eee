// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/autotune_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "engine/autotune/autotuner.h"

namespace hvd {

Result<AutotuneLog> AutotuneLog::create(const std::string& path) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) {
    return io_error(fmt::format("HOROVOD_AUTOTUNE_LOG: cannot create \"{}\"", path), errno);
  }
  AutotuneLog log(path, std::move(file));
  const std::string header[] = {Autotuner::kHeader};
  HVD_TRY(log.append(header));
  return log;
}

Status AutotuneLog::append(std::span<const std::string> rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return io_error(fmt::format("HOROVOD_AUTOTUNE_LOG: cannot write to \"{}\"", path_), errno);
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return Status::ok();
}

}  // namespace hvd
