// SPDX-License-Identifier: Apache-2.0
// A thread with a name, so that top, gdb and a stall report can say which one it is.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace hvd {

// At most 15 characters are kept: that is what Linux stores.
void set_this_thread_name(const std::string& name);

// What to say of a thread that the system refused: its name and the limit to raise.
std::string thread_refused(const std::string& name);

// Throws std::system_error, which the C interface turns into an error code, when the limit of
// processes does not allow one more thread.
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
