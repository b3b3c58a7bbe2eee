// SPDX-License-Identifier: Apache-2.0
// What the scenarios that ranks_test.cc runs as processes share. They see the library as any
// program does: through hvd.h and hvd.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>

#include "capi/hvd.hpp"

namespace scenario {

// Ends this rank, and with it all others, unless `condition` holds.
inline void expect(bool condition, const std::string& what, int line) {
  if (condition) return;
  std::ostringstream text;
  text << "FAILED on rank " << hvd_rank() << " of " << hvd_size() << ", line " << line << ": "
       << what << '\n';
  std::cout << text.str() << std::flush;
  std::_Exit(1);
}
#define EXPECT(condition) ::scenario::expect((condition), #condition, __LINE__)

// One line, in one piece.
template <typename... Parts>
void say(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts) << '\n';
  std::cout << text.str() << std::flush;
}

// The failure of `body`; code HVD_OK if there is none.
inline hvd::Error failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return error;
  }
  return {HVD_OK, "no failure"};
}

inline bool contains(const hvd::Error& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

// Of the monotonic clock, which all processes of a machine share.
inline int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// All that ranks can do together.
void run_collectives();
// Sealed bytes: who accepts whose.
void run_seals();

}  // namespace scenario
