// SPDX-License-Identifier: Apache-2.0
#include "net/authenticate.h"

#include <poll.h>

#include "net/negotiation.h"
#include "net/socket.h"

namespace hvd {
namespace {

// Advances the negotiation until it is done, and polls the socket in between.
Status drive(Negotiation& negotiation, Deadline deadline) {
  while (true) {
    HVD_TRY_ASSIGN(const uint32_t blocked_on, negotiation.advance());
    if (blocked_on == 0) return Status::ok();
    const Status ready =
        wait_for(negotiation.fd(), blocked_on == kReadable ? POLLIN : POLLOUT, deadline);
    if (ready.code() == StatusCode::kTimeout) {
      return timeout_error("connected, but did not authenticate itself in time");
    }
    HVD_TRY(ready);
  }
}

}  // namespace

Result<AuthenticatedStream> connect_stream(Fd socket, const Secret& secret,
                                           const StreamOptions& options, Deadline deadline) {
  HVD_TRY_ASSIGN(const Endpoint peer, peer_endpoint(socket));
  const std::string name = peer_name(socket.get(), peer);
  Negotiation negotiation = Negotiation::as_client(std::move(socket), secret, options.tls);
  const Status outcome = drive(negotiation, deadline);
  if (!outcome.is_ok()) return outcome.with_context(name);
  return negotiation.take(peer);
}

}  // namespace hvd
