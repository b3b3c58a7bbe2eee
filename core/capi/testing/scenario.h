// SPDX-License-Identifier: Apache-2.0
// Helpers of the scenarios that ranks_test.cc runs as processes. Scenarios use the library only
// through hvd.h and hvd.hpp, like any program.
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

// Ends this rank, and therefore the job, unless `condition` holds.
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

// Every collective, with groups, process sets, join and shutdown.
void run_collectives();
// Sealed bytes: which ranks and operations accept which seals.
void run_seals();

}  // namespace scenario
