// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "base/text.h"
#include "net/resolver.h"

namespace hvd {
namespace {

Status bad_address(std::string_view text, std::string_view why) {
  return invalid_argument("address \"" + std::string(text) + "\": " + std::string(why) +
                          "; write 1.2.3.4:80 or [::1]:80");
}

// The parts of "host:port" or "[host]:port".
struct HostPort {
  std::string host;
  uint16_t port = 0;
  bool bracketed = false;
};

Result<HostPort> split(std::string_view text) {
  HostPort result;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad_address(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    result.bracketed = true;
  } else if (host.find(':') != std::string_view::npos) {
    return bad_address(text, "an IPv6 address needs brackets before its port");
  }
  if (host.empty()) return bad_address(text, "has no host");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return bad_address(text, "the port is not a number from 0 to 65535");
  }
  result.host = host;
  return result;
}

int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  if (mask->sa_family == AF_INET) {
    return std::popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
  }
  int bits = 0;
  for (const uint8_t byte : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr) {
    bits += std::popcount(byte);
  }
  return bits;
}

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

Endpoint::Endpoint() {
  std::memset(&storage_, 0, sizeof(storage_));
  storage_.v4.sin_family = AF_INET;
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  HVD_TRY_ASSIGN(const HostPort parts, split(text));
  Endpoint result;
  if (parts.bracketed) {
    result = any_v6();
    if (inet_pton(AF_INET6, parts.host.c_str(), &result.storage_.v6.sin6_addr) != 1) {
      return bad_address(text, "the text in brackets is not an IPv6 address");
    }
  } else if (inet_pton(AF_INET, parts.host.c_str(), &result.storage_.v4.sin_addr) != 1) {
    return bad_address(text, "the host is not an IPv4 address");
  }
  // inet_pton stops at a zero byte: two different texts would give the same address.
  if (parts.host.find('\0') != std::string::npos) return bad_address(text, "holds a zero byte");
  return result.with_port(parts.port);
}

Result<Endpoint> Endpoint::from_sockaddr(const sockaddr* address, socklen_t length) {
  Endpoint result;
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    std::memcpy(&result.storage_.v4, address, sizeof(sockaddr_in));
  } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    std::memcpy(&result.storage_.v6, address, sizeof(sockaddr_in6));
  } else {
    return invalid_argument("socket address of family " + std::to_string(address->sa_family) +
                            " is neither IPv4 nor IPv6");
  }
  return result;
}

Endpoint Endpoint::loopback(uint16_t port) {
  Endpoint result;
  result.storage_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return result.with_port(port);
}

Endpoint Endpoint::loopback_v6(uint16_t port) {
  Endpoint result = any_v6(port);
  result.storage_.v6.sin6_addr = in6addr_loopback;
  return result;
}

Endpoint Endpoint::any(uint16_t port) { return Endpoint().with_port(port); }

Endpoint Endpoint::any_v6(uint16_t port) {
  Endpoint result;
  std::memset(&result.storage_, 0, sizeof(result.storage_));
  result.storage_.v6.sin6_family = AF_INET6;
  return result.with_port(port);
}

uint16_t Endpoint::port() const {
  return ntohs(family() == AF_INET ? storage_.v4.sin_port : storage_.v6.sin6_port);
}

Endpoint Endpoint::with_port(uint16_t port) const {
  Endpoint result = *this;
  (family() == AF_INET ? result.storage_.v4.sin_port : result.storage_.v6.sin6_port) = htons(port);
  return result;
}

bool Endpoint::is_any() const {
  return family() == AF_INET ? storage_.v4.sin_addr.s_addr == 0
                             : IN6_IS_ADDR_UNSPECIFIED(&storage_.v6.sin6_addr);
}

std::string Endpoint::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  const void* number = family() == AF_INET ? static_cast<const void*>(&storage_.v4.sin_addr)
                                           : static_cast<const void*>(&storage_.v6.sin6_addr);
  inet_ntop(family(), number, text, sizeof(text));
  return text;
}

std::string Endpoint::to_string() const {
  std::string text;  // piece by piece: GCC 12 warns of overlaps in `"[" + host()`
  if (family() == AF_INET6) text += '[';
  text += host();
  if (family() == AF_INET6) text += ']';
  text += ':';
  text += std::to_string(port());
  return text;
}

socklen_t Endpoint::length() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

Endpoint Endpoint::unmapped() const {
  if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&storage_.v6.sin6_addr)) return *this;
  Endpoint result;
  std::memcpy(&result.storage_.v4.sin_addr, &storage_.v6.sin6_addr.s6_addr[12], 4);
  return result.with_port(port());
}

bool operator==(const Endpoint& a, const Endpoint& b) {
  if (a.family() != b.family() || a.port() != b.port()) return false;
  if (a.family() == AF_INET) {
    return a.storage_.v4.sin_addr.s_addr == b.storage_.v4.sin_addr.s_addr;
  }
  return a.storage_.v6.sin6_scope_id == b.storage_.v6.sin6_scope_id &&
         std::memcmp(&a.storage_.v6.sin6_addr, &b.storage_.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port, Deadline deadline) {
  return Resolver::system().resolve(host, port, deadline);
}

Result<std::vector<Endpoint>> resolve(std::string_view host_and_port, Deadline deadline) {
  return resolve(host_and_port, Resolver::system(), deadline);
}

Result<std::vector<Endpoint>> resolve(std::string_view host_and_port, Resolver& resolver,
                                      Deadline deadline) {
  HVD_TRY_ASSIGN(const HostPort parts, split(host_and_port));
  return resolver.resolve(parts.host, parts.port, deadline);
}

Result<std::vector<Interface>> local_interfaces(const std::vector<std::string>& only) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return io_error("list network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  std::vector<Interface> interfaces;
  std::set<std::string> known;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const sockaddr* address = entry->ifa_addr;
    if (address == nullptr || (entry->ifa_flags & IFF_UP) == 0 || is_link_local(address)) continue;
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6) continue;
    known.insert(entry->ifa_name);
    if (!only.empty() && std::find(only.begin(), only.end(), entry->ifa_name) == only.end()) {
      continue;
    }
    HVD_TRY_ASSIGN(const Endpoint endpoint, Endpoint::from_sockaddr(address, sizeof(sockaddr_in6)));
    interfaces.push_back({entry->ifa_name, endpoint, prefix_of(entry->ifa_netmask),
                          (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  for (const std::string& name : only) {
    if (known.count(name) == 0) {
      return not_found(
          "network interface \"" + name +
          "\" does not exist here, is down or has no address; there are: " + join(known, ", "));
    }
  }
  return interfaces;
}

Result<std::vector<Interface>> public_interfaces(const std::vector<std::string>& only) {
  HVD_TRY_ASSIGN(std::vector<Interface> found, local_interfaces(only));
  const auto loopback = [](const Interface& each) { return each.loopback; };
  if (only.empty() && !std::all_of(found.begin(), found.end(), loopback)) {
    std::erase_if(found, loopback);
  }
  return found;
}

}  // namespace hvd
