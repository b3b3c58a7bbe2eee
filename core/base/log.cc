// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace hvd {
namespace {

struct LogSettings {
  std::atomic<LogLevel> level{LogLevel::kWarning};
  std::atomic<bool> hide_time{false};
  std::atomic<int> rank{-1};
};

LogSettings& log_settings() {
  static LogSettings instance;
  return instance;
}

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}: ", local.tm_year + 1900,
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                     micros);
}

}  // namespace

void configure_log(LogLevel level, bool hide_time) {
  log_settings().level = level;
  log_settings().hide_time = hide_time;
}

void set_log_rank(int rank) { log_settings().rank = rank; }

bool log_enabled(LogLevel level) { return level >= log_settings().level; }

void write_log(LogLevel level, const char* file, int line, fmt::string_view format,
               fmt::format_args arguments) noexcept try {
  constexpr char kLetters[] = "TDIWEF";
  const char* slash = std::strrchr(file, '/');
  const int rank = log_settings().rank;
  const std::string out = fmt::format(
      "[{}{} {}:{}]{} {}\n", log_settings().hide_time ? std::string() : time_text(),
      kLetters[static_cast<int>(level)], slash != nullptr ? slash + 1 : file, line,
      rank >= 0 ? fmt::format(" [{}]:", rank) : std::string(), fmt::vformat(format, arguments));
  // One write per line, so that lines of several threads and processes do not mix.
  std::FILE* stream = level >= LogLevel::kWarning ? stderr : stdout;
  std::fwrite(out.data(), 1, out.size(), stream);
  std::fflush(stream);
  if (level == LogLevel::kFatal) std::abort();
} catch (...) {
  if (level == LogLevel::kFatal) std::abort();
}

}  // namespace hvd
