// Log lines as HOROVOD_LOG_LEVEL and HOROVOD_LOG_HIDE_TIME ask for them:
//
//   [2026-03-01 12:00:00.123456: W store.cc:42] [3]: text
//
// Info and lower go to standard output, warnings and higher to standard error; fatal aborts.
// The rank in brackets appears once it is known.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace hvd {

enum class LogLevel { kTrace = 0, kDebug, kInfo, kWarning, kError, kFatal };

// Until called, warnings and higher are shown with the time.
void configure_log(LogLevel level, bool hide_time);
// Names this process in every later line; -1 takes the name away.
void set_log_rank(int rank);
bool log_enabled(LogLevel level);
void write_log(LogLevel level, const char* file, int line, std::string_view text);

}  // namespace hvd

#define HVD_LOG(level, ...)                                                                   \
  do {                                                                                        \
    if (::hvd::log_enabled(::hvd::LogLevel::level))                                           \
      ::hvd::write_log(::hvd::LogLevel::level, __FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)
