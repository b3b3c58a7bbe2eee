// SPDX-License-Identifier: Apache-2.0
// What the benchmark programs share. They have no caller who could handle a failure: it ends them.
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

inline Deadline patience() { return Deadline::after(std::chrono::minutes(2)); }

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

inline std::string json_list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
  }
  return "[" + text + "]";
}

}  // namespace hvd::bench
