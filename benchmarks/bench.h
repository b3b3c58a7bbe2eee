// SPDX-License-Identifier: Apache-2.0
// Helpers of the benchmark programs. A failure ends the program with its message, because no caller
// could handle it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd::bench {

using Clock = std::chrono::steady_clock;

// Much longer than any step takes: a program that reaches it hangs.
inline Deadline patience() { return Deadline::after(std::chrono::minutes(2)); }

// Ends the process with the message of a failure, without destructors, which might wait for peers.
inline void must(const Status& status) {
  if (status.is_ok()) return;
  fmt::print(stderr, "{}\n", status.to_string());
  std::_Exit(1);
}

template <typename T>
T must(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

inline double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// "[1.5, 2]", with four significant digits.
inline std::string json_list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
  }
  return "[" + text + "]";
}

}  // namespace hvd::bench
