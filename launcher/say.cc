// SPDX-License-Identifier: Apache-2.0
#include "launcher/say.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

#include "base/status.h"

namespace hvd::launcher {

int complain(std::string_view why, int code) {
  (void)std::fputs(fmt::format("horovodrun: {}\n", why).c_str(), stderr);
  return code;
}

int show(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return complain(io_error("standard output", errno).message(), kFailure);
}

}  // namespace hvd::launcher
