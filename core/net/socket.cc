// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

namespace hvd {
namespace {

void set_option(const Fd& socket, int level, int name, int value) {
  // Failures are ignored: each option either cannot fail on a TCP socket, or only improves speed.
  (void)setsockopt(socket.get(), level, name, &value, sizeof(value));
}

// Called before connect and listen: accepted sockets inherit the algorithm of the listener.
void set_congestion_control(const Fd& socket) {
  for (const std::string_view name : {"cubic", "reno"}) {
    if (setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0) {
      return;
    }
  }
}

Result<Fd> new_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket.valid()) {
    const int error = errno;
    return io_error(family == AF_INET6 ? "make an IPv6 socket" : "make an IPv4 socket", error);
  }
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_congestion_control(socket);
  return socket;
}

// A connection attempt in progress.
struct Attempt {
  Fd socket;
  size_t index;
};

Result<Fd> start_connect(const Endpoint& where) {
  HVD_TRY_ASSIGN(Fd socket, new_socket(where.family()));
  if (::connect(socket.get(), where.address(), where.length()) != 0 && errno != EINPROGRESS) {
    return io_error("connect", errno);
  }
  return socket;
}

// Ok once the connection is established.
Status finish_connect(const Fd& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return io_error("connect", error);
  // If no process listens on a port of the ephemeral range, the kernel may choose the same port for
  // our own end and connect the socket to itself: that is a refused connection.
  HVD_TRY_ASSIGN(const Endpoint here, local_endpoint(socket));
  HVD_TRY_ASSIGN(const Endpoint there, peer_endpoint(socket));
  if (here == there) return io_error("connect", ECONNREFUSED);
  return Status::ok();
}

std::string describe(std::span<const Endpoint> where, const std::vector<Status>& failures) {
  std::string text;
  for (size_t i = 0; i < where.size(); ++i) {
    const std::string& why = failures[i].message();
    text += (i == 0 ? "" : "; ") + where[i].to_string() + ": " +
            (failures[i].is_ok() ? "no answer in time" : why);
  }
  return text;
}

// Polls all attempts once. Removes those that failed, and returns the first that succeeded.
Result<Fd> poll_attempts(std::vector<Attempt>& attempts, std::vector<Status>& failures,
                         Deadline deadline) {
  std::vector<pollfd> polls;
  polls.reserve(attempts.size());
  for (const Attempt& attempt : attempts) polls.push_back({attempt.socket.get(), POLLOUT, 0});
  if (::poll(polls.data(), polls.size(), deadline.poll_milliseconds()) < 0 && errno != EINTR) {
    return io_error("poll", errno);
  }
  std::vector<Attempt> waiting;
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (polls[i].revents == 0) {
      waiting.push_back(std::move(attempts[i]));
      continue;
    }
    Status outcome = finish_connect(attempts[i].socket);
    if (outcome.is_ok()) return std::move(attempts[i].socket);
    failures[attempts[i].index] = std::move(outcome);
  }
  attempts = std::move(waiting);
  return Fd();
}

}  // namespace

Result<Fd> listen_on(const Endpoint& where, int backlog) {
  const std::string what = "listen on " + where.to_string();
  auto made = new_socket(where.family());
  if (!made.is_ok()) return made.status().with_context(what);
  Fd socket = std::move(made).value();
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (where.family() == AF_INET6) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, where.is_any() ? 0 : 1);
  }
  if (::bind(socket.get(), where.address(), where.length()) != 0) return io_error(what, errno);
  if (::listen(socket.get(), backlog) != 0) return io_error(what, errno);
  return socket;
}

Result<Endpoint> local_endpoint(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return io_error("address of a socket", errno);
  }
  return Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&address), length);
}

Result<Endpoint> peer_endpoint(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return io_error("address of a peer", errno);
  }
  if (address.ss_family == AF_UNIX) return Endpoint::loopback();
  HVD_TRY_ASSIGN(const Endpoint peer,
                 Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&address), length));
  return peer.unmapped();
}

std::string peer_name(int fd, const Endpoint& endpoint) {
  constexpr auto kNone = static_cast<uid_t>(-1);  // the user id that a TCP socket reports
  ucred process{};
  socklen_t length = sizeof(process);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &length) != 0 || process.uid == kNone) {
    return endpoint.to_string();
  }
  const std::string user = " of user " + std::to_string(process.uid);
  // The pid is 0 for a process of another pid namespace.
  if (process.pid == 0) return "a process" + user + " in another pid namespace";
  return "process " + std::to_string(process.pid) + user;
}

Result<Fd> accept_from(const Fd& listener) {
  while (true) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    switch (errno) {
      case EAGAIN: return Fd();
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM: {
        const int error = errno;
        return Status(StatusCode::kUnavailable,
                      io_error("accept", error).message() + "; raise the limit with ulimit -n");
      }
      // These errors concern a connection that ended in the queue, not the listener.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH: break;
      default: return io_error("accept", errno);
    }
  }
}

Result<Fd> connect_to(const Endpoint& where, Deadline deadline) {
  return connect_any(std::span(&where, 1), deadline);
}

Result<Fd> connect_any(std::span<const Endpoint> where, Deadline deadline) {
  if (where.empty()) return invalid_argument("connect: no address given");
  std::vector<Attempt> attempts;
  std::vector<Status> failures(where.size());
  for (size_t i = 0; i < where.size(); ++i) {
    auto started = start_connect(where[i]);
    if (started.is_ok()) {
      attempts.push_back({std::move(started).value(), i});
    } else {
      failures[i] = started.status();
    }
  }
  while (!attempts.empty()) {
    HVD_TRY_ASSIGN(Fd winner, poll_attempts(attempts, failures, deadline));
    if (winner.valid()) return winner;
    if (!attempts.empty() && deadline.expired()) return timeout_error(describe(where, failures));
  }
  return unavailable(describe(where, failures));
}

Status wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd poll{fd, events, 0};
    const int ready = ::poll(&poll, 1, deadline.poll_milliseconds());
    if (ready > 0) return Status::ok();
    if (ready < 0 && errno != EINTR) return io_error("poll", errno);
    if (deadline.expired()) return timeout_error("no answer in time");
  }
}

}  // namespace hvd
