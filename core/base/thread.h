// SPDX-License-Identifier: Apache-2.0
// Threads with names, so that top, gdb and stall reports can show which thread is which.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace hvd {

// Linux keeps at most 15 characters; the rest is cut off.
void set_this_thread_name(const std::string& name);

// The message for a thread that the system refused to start: its name and the limit to raise.
std::string thread_refused(const std::string& name);

// Runs `body` on a new thread. The caller joins it. Throws std::system_error when the limit on
// processes (ulimit -u) does not allow one more thread; the C interface turns that into
// HVD_UNAVAILABLE.
template <typename F>
std::thread start_thread(const std::string& name, F body) {
  try {
    return std::thread([name, body = std::move(body)]() mutable {
      set_this_thread_name(name);
      body();
    });
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), thread_refused(name));
  }
}

// The same, with kUnavailable instead of the exception.
template <typename F>
Result<std::thread> try_start_thread(const std::string& name, F body) {
  try {
    return start_thread(name, std::move(body));
  } catch (const std::system_error& error) {
    return unavailable(error.what());
  }
}

}  // namespace hvd
