// SPDX-License-Identifier: Apache-2.0
// TCP sockets. All of them are non-blocking, are closed on exec, and send small frames at once
// (TCP_NODELAY). Any thread may call these functions.
//
// Congestion control is cubic; if that is missing, reno; if that is missing, the system's default.
// BBR, the default on many machines, halves the speed of a ring on an unshaped network. Buffer
// sizes are left to the kernel's tuning: fixed sizes were never faster, and up to 10 % slower at 10
// Gbit/s.
#pragma once

#include <span>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "net/address.h"
#include "net/fd.h"

namespace hvd {

// Port 0 selects a free port; local_endpoint() returns it. The address Endpoint::any_v6() also
// serves IPv4. `backlog`: connections that may wait in the kernel's queue.
Result<Fd> listen_on(const Endpoint& where, int backlog = 1024);

Result<Endpoint> local_endpoint(const Fd& socket);
// IPv4 peers of an IPv6 socket are shown as IPv4, those of a Unix socket as loopback.
Result<Endpoint> peer_endpoint(const Fd& socket);
// How messages name the peer of `fd`: `endpoint`, or the process and the user of a Unix socket.
std::string peer_name(int fd, const Endpoint& endpoint);

// The next waiting connection, or an invalid Fd if there is none. kUnavailable: this process or
// this machine has no free descriptors or memory; accept again after closing a descriptor.
Result<Fd> accept_from(const Fd& listener);

// kUnavailable if the connection is refused, kTimeout at the deadline; as connect_any().
Result<Fd> connect_to(const Endpoint& where, Deadline deadline);

// Tries all addresses at once and keeps the first connection that is established: a host often has
// addresses that not every peer can reach. The error names each address and its failure.
Result<Fd> connect_any(std::span<const Endpoint> where, Deadline deadline);

// Waits until `fd` has one of the poll(2) `events`, an error, or a hang-up; kTimeout at the
// deadline.
Status wait_for(int fd, short events, Deadline deadline);

}  // namespace hvd
