// SPDX-License-Identifier: Apache-2.0
// Log lines, in the format that HOROVOD_LOG_LEVEL and HOROVOD_LOG_HIDE_TIME select:
//
//   [2026-03-01 12:00:00.123456: W acceptor.cc:42] [3]: text
//    time (local)               level file:line     rank
//
// Levels up to info are written to standard output, warnings and higher to standard error. Fatal
// aborts the process. The rank in brackets appears once it is known. A line is one write, so that
// lines of several threads do not mix. Any thread may log.
#pragma once

#include <fmt/format.h>

namespace hvd {

enum class LogLevel { kTrace = 0, kDebug, kInfo, kWarning, kError, kFatal };

// Before the first call, warnings and higher are shown, with the time.
void configure_log(LogLevel level, bool hide_time);
// Adds the rank to every later line; -1 removes it.
void set_log_rank(int rank);
bool log_enabled(LogLevel level);
// Drops the line if there is no memory for it: code that only reports something must not fail with
// std::bad_alloc.
void write_log(LogLevel level, const char* file, int line, fmt::string_view format,
               fmt::format_args arguments) noexcept;

template <typename... Arguments>
void log_line(LogLevel level, const char* file, int line,
              fmt::format_string<const Arguments&...> format,
              const Arguments&... arguments) noexcept {
  write_log(level, file, line, format, fmt::make_format_args(arguments...));
}

}  // namespace hvd

// HVD_LOG(kWarning, "rank {} is late", rank): the arguments are evaluated only if the level is
// shown.
#define HVD_LOG(level, ...)                                                     \
  do {                                                                          \
    if (::hvd::log_enabled(::hvd::LogLevel::level))                             \
      ::hvd::log_line(::hvd::LogLevel::level, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
