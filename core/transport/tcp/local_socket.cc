// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/local_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace hvd {
namespace {

constexpr int kBacklog = 1024;
constexpr socklen_t kNameStart = offsetof(sockaddr_un, sun_path) + 1;  // after the leading zero

}  // namespace

Result<LocalListener> listen_local() {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return io_error("make a Unix socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // With an address that ends after its family the kernel chooses a name.
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0) {
    return io_error("bind a Unix socket", errno);
  }
  if (::listen(socket.get(), kBacklog) != 0) return io_error("listen on a Unix socket", errno);
  socklen_t length = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return io_error("name of a Unix socket", errno);
  }
  return LocalListener{std::move(socket), std::string(address.sun_path + 1, length - kNameStart)};
}

Result<Fd> connect_local(const std::string& name, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof(address.sun_path) - 1) {
    return invalid_argument("not the name of a Unix socket");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  // Blocking until it is connected: a non-blocking connect to a full listener fails at once.
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return io_error("make a Unix socket", errno);
  const auto wait = std::max(std::chrono::milliseconds(deadline.poll_milliseconds()),
                             std::chrono::milliseconds(1));
  timeval limit{};
  limit.tv_sec = wait.count() / 1000;
  limit.tv_usec = static_cast<suseconds_t>(wait.count() % 1000 * 1000);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  const auto length = static_cast<socklen_t>(kNameStart + name.size());
  while (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN) return timeout_error("no answer in time");
    if (errno != EINTR) return io_error("connect", errno);
  }
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return io_error("fcntl", errno);
  return socket;
}

}  // namespace hvd
