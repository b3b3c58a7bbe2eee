// SPDX-License-Identifier: Apache-2.0
// Shared by the scenarios that ranks_test.cc runs as processes. They use the library as any program
// does: through hvd.h and hvd.hpp.
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

// Ends this rank, and with it all other ranks, unless `condition` holds.
inline void expect(bool condition, const std::string& what, int line) {
  if (condition) return;
  std::ostringstream text;
  text << "FAILED on rank " << hvd_rank() << " of " << hvd_size() << ", line " << line << ": "
       << what << '\n';
  std::cout << text.str() << std::flush;
  std::_Exit(1);
}
#define EXPECT(condition) ::scenario::expect((condition), #condition, __LINE__)

// Prints one line with a single write.
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

// Microseconds of the monotonic clock, which is the same for all processes of a machine.
inline int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// All collectives.
void run_collectives();
// Sealed bytes: which seals a rank accepts.
void run_seals();

}  // namespace scenario
