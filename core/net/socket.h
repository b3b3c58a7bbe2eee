// SPDX-License-Identifier: Apache-2.0
// TCP sockets. All are non-blocking, close on exec and send small frames at once (TCP_NODELAY).
//
// Congestion control is cubic, else reno, else what the system has: BBR, the default on many
// machines, halves an unshaped ring. Buffer sizes stay with the kernel's tuning: fixed sizes never
// won and lost up to 10 % at 10 Gbit/s.
#pragma once

#include <span>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "net/address.h"
#include "net/fd.h"

namespace hvd {

// Port 0 takes a free one: ask local_endpoint(). The address Endpoint::any_v6() serves IPv4 too.
Result<Fd> listen_on(const Endpoint& where, int backlog = 1024);

Result<Endpoint> local_endpoint(const Fd& socket);
// IPv4 peers of an IPv6 socket are shown as IPv4, those of a Unix socket as loopback.
Result<Endpoint> peer_endpoint(const Fd& socket);
// How messages name the peer of `fd`: `endpoint`, or the process and the user of a Unix socket.
std::string peer_name(int fd, const Endpoint& endpoint);

// The next waiting connection, or an empty Fd when there is none. kUnavailable means that this
// process or machine is out of descriptors or memory: accept again after closing something.
Result<Fd> accept_from(const Fd& listener);

Result<Fd> connect_to(const Endpoint& where, Deadline deadline);

// Tries all addresses at once and keeps the first that answers; a host often has addresses that
// not every peer can reach. The error names each address and what happened there.
Result<Fd> connect_any(std::span<const Endpoint> where, Deadline deadline);

// Waits until `fd` has one of the poll(2) `events`, an error, or a hang-up; kTimeout at the
// deadline.
Status wait_for(int fd, short events, Deadline deadline);

}  // namespace hvd
