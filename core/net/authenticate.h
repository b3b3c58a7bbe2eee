// SPDX-License-Identifier: Apache-2.0
// Turns a connected socket into an authenticated stream: the client's side. The server's side,
// which has to serve many peers at once, is net/acceptor.h.
#pragma once

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

// Runs the handshake and, when asked for, TLS. Blocks until done or until the deadline.
// kUnauthenticated: the peer has another secret; kPrecondition: it has another HOROVOD_TLS or
// another version; kPeerLost: it hung up.
Result<AuthenticatedStream> connect_stream(Fd socket, const Secret& secret,
                                           const StreamOptions& options, Deadline deadline);

}  // namespace hvd
