// SPDX-License-Identifier: Apache-2.0
// Socket addresses, host names and the network interfaces of this machine. Any thread may call
// these functions.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd {

// One IPv4 or IPv6 address with a port: a value, always valid. parse(to_string()) gives the same
// endpoint; ranks exchange the addresses they listen on in this text form.
class Endpoint {
 public:
  // IPv4, every interface, any port.
  Endpoint();
  // "1.2.3.4:80" or "[::1]:80": numbers only, see resolve() for names. Scoped addresses
  // ("fe80::1%eth0") are refused because a scope means nothing on another host.
  static Result<Endpoint> parse(std::string_view text);
  // `address` is AF_INET or AF_INET6.
  static Result<Endpoint> from_sockaddr(const sockaddr* address, socklen_t length);
  static Endpoint loopback(uint16_t port = 0);     // 127.0.0.1
  static Endpoint loopback_v6(uint16_t port = 0);  // ::1
  static Endpoint any(uint16_t port = 0);          // 0.0.0.0
  static Endpoint any_v6(uint16_t port = 0);       // ::, on which listen_on() also serves IPv4

  int family() const { return storage_.any.sa_family; }  // AF_INET or AF_INET6
  uint16_t port() const;
  Endpoint with_port(uint16_t port) const;
  bool is_any() const;
  // The address alone: "1.2.3.4" or "::1".
  std::string host() const;
  std::string to_string() const;

  const sockaddr* address() const { return &storage_.any; }
  socklen_t length() const;

  // Plain IPv4 for the form that an IPv6 socket shows (::ffff:1.2.3.4); otherwise unchanged.
  Endpoint unmapped() const;

  friend bool operator==(const Endpoint& a, const Endpoint& b);

 private:
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  } storage_;
};

class Resolver;

// For callers that have no deadline of their own.
inline constexpr std::chrono::seconds kLookUpTimeout{10};

// All addresses of a host name or a numeric address, each once, in the system's order. kNotFound if
// the name does not exist (it may exist later); kTimeout if the name server does not answer.
Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port,
                                      Deadline deadline = Deadline::after(kLookUpTimeout));
// The same for "host:port", "1.2.3.4:80" or "[::1]:80"; another text is kInvalidArgument.
Result<std::vector<Endpoint>> resolve(std::string_view host_and_port,
                                      Deadline deadline = Deadline::after(kLookUpTimeout));
Result<std::vector<Endpoint>> resolve(std::string_view host_and_port, Resolver& resolver,
                                      Deadline deadline);

// One address of one network interface that is up; an interface with two addresses appears
// twice.
struct Interface {
  std::string name;
  Endpoint address;  // port 0
  int prefix_length = 0;
  bool loopback = false;
};

// The interfaces named in `only`, or all if it is empty. Link-local IPv6 addresses are left out.
// kNotFound for a name that this machine does not have; the message lists the names it has.
Result<std::vector<Interface>> local_interfaces(const std::vector<std::string>& only);
// The interfaces by which other hosts can reach this one: those named in `only`; if `only` is
// empty, all except loopback, or loopback if there is no other.
Result<std::vector<Interface>> public_interfaces(const std::vector<std::string>& only);

}  // namespace hvd
