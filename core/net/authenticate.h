// SPDX-License-Identifier: Apache-2.0
// Makes an authenticated stream out of a connected socket, on the client's side. The server's side,
// which serves many peers at once, is net/acceptor.h. Any thread may call it.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

// Runs the handshake and, if `options` ask for it, TLS. Blocks until done or until the deadline,
// then kTimeout. kUnauthenticated: the peer has another secret. kPrecondition: it has another
// HOROVOD_TLS or another version. kPeerLost: it closed the connection. Takes ownership of `socket`,
// also if it fails.
Result<AuthenticatedStream> connect_stream(Fd socket, const Secret& secret,
                                           const StreamOptions& options, Deadline deadline);

}  // namespace hvd
