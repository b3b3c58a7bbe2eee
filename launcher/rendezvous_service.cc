// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous_service.h"

#include "launcher/host_checks.h"
#include "net/address.h"

namespace hvd::launcher {
namespace {

Result<std::unique_ptr<RendezvousServer>> start_at(const Secret& secret,
                                                   RendezvousServerOptions options,
                                                   const Endpoint& bind) {
  options.bind = bind;
  return RendezvousServer::start(secret, options);
}

}  // namespace

// Ports are chosen by the kernel. An address is "ip:port" as a rank on another host would use it.
Result<RendezvousService> start_rendezvous(const Secret& secret, bool one_host,
                                           const std::vector<std::string>& interfaces, bool tls) {
  RendezvousService service;
  RendezvousServerOptions options;
  options.tls = tls;
  if (one_host) {
    auto started = start_at(secret, options, Endpoint::loopback());
    // The loopback interface may have an IPv6 address only.
    if (!started.is_ok()) {
      auto v6 = start_at(secret, options, Endpoint::loopback_v6());
      if (v6.is_ok()) started = std::move(v6);
    }
    HVD_TRY_ASSIGN(service.server, std::move(started));
    service.addresses.push_back(service.server->endpoint().to_string());
    return service;
  }
  if (!interfaces.empty()) {
    HVD_TRY_ASSIGN(const std::vector<Interface> found, interfaces_among(interfaces));
    options.bind = found.front().address;
    for (size_t i = 1; i < found.size(); ++i) options.more.push_back(found[i].address);
    HVD_TRY_ASSIGN(service.server, RendezvousServer::start(secret, options));
    for (const Endpoint& each : service.server->endpoints()) {
      service.addresses.push_back(each.to_string());
    }
    return service;
  }
  // The IPv6 wildcard accepts IPv4 as well.
  auto started = start_at(secret, options, Endpoint::any_v6());
  // The kernel may have no IPv6.
  if (!started.is_ok()) started = start_at(secret, options, Endpoint::any());
  HVD_TRY_ASSIGN(service.server, std::move(started));
  HVD_TRY_ASSIGN(const std::vector<Interface> found, local_interfaces({}));
  const Endpoint bound = service.server->endpoint();
  for (const Interface& each : found) {
    const bool reachable = each.address.family() == AF_INET || bound.family() == AF_INET6;
    if (!each.loopback && reachable) {
      service.addresses.push_back(each.address.with_port(bound.port()).to_string());
    }
  }
  return service;
}

}  // namespace hvd::launcher
