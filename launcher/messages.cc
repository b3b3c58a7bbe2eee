// SPDX-License-Identifier: Apache-2.0
#include "launcher/messages.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

#include "base/status.h"

namespace hvd::launcher {

int print_error(std::string_view why, int code) {
  (void)std::fputs(fmt::format("horovodrun: {}\n", why).c_str(), stderr);
  return code;
}

int print_output(std::string_view text) {
  errno = 0;  // fwrite() need not set it
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return print_error(io_error("standard output", errno).message(), kFailure);
}

}  // namespace hvd::launcher
