// A thread with a name, so that top, gdb and a stall report can say which one it is.
#pragma once

#include <string>
#include <thread>
#include <utility>

namespace hvd {

// At most 15 characters are kept: that is what Linux stores.
void set_this_thread_name(const std::string& name);

template <typename F>
std::thread start_thread(std::string name, F body) {
  return std::thread([name = std::move(name), body = std::move(body)]() mutable {
    set_this_thread_name(name);
    body();
  });
}

}  // namespace hvd
