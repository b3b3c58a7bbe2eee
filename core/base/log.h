// SPDX-License-Identifier: Apache-2.0
// Log lines as HOROVOD_LOG_LEVEL and HOROVOD_LOG_HIDE_TIME ask for them:
//
//   [2026-03-01 12:00:00.123456: W store.cc:42] [3]: text
//
// Info and lower go to standard output, warnings and higher to standard error; fatal aborts.
// The rank in brackets appears once it is known.
#pragma once

#include <fmt/format.h>

namespace hvd {

enum class LogLevel { kTrace = 0, kDebug, kInfo, kWarning, kError, kFatal };

// Until called, warnings and higher are shown with the time.
void configure_log(LogLevel level, bool hide_time);
// Names this process in every later line; -1 takes the name away.
void set_log_rank(int rank);
bool log_enabled(LogLevel level);
// Without the memory for a line there is no line: the want of memory is no reason to throw from
// places that only wanted to report something.
void write_log(LogLevel level, const char* file, int line, fmt::string_view format,
               fmt::format_args arguments) noexcept;

template <typename... Arguments>
void log_line(LogLevel level, const char* file, int line,
              fmt::format_string<const Arguments&...> format,
              const Arguments&... arguments) noexcept {
  write_log(level, file, line, format, fmt::make_format_args(arguments...));
}

}  // namespace hvd

#define HVD_LOG(level, ...)                                                     \
  do {                                                                          \
    if (::hvd::log_enabled(::hvd::LogLevel::level))                             \
      ::hvd::log_line(::hvd::LogLevel::level, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
