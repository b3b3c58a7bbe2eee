// SPDX-License-Identifier: Apache-2.0
// Turns one connected socket into an authenticated stream: first the handshake, then TLS if the job
// uses it. Never blocks. Two callers advance it: the client (authenticate.cc), which waits, and the
// acceptor, which serves many peers. (The negotiation of tensors is in engine/negotiator.h.)
//
// Not thread-safe. Owns the socket until take().
#pragma once

#include <memory>

#include "base/status.h"
#include "net/fd.h"
#include "net/handshake.h"
#include "net/stream.h"
#include "net/tls.h"

namespace hvd {

class Negotiation {
 public:
  static Negotiation as_client(Fd socket, const Secret& secret, bool tls);
  static Negotiation as_server(Fd socket, const Secret& secret, bool tls);

  // Continues as far as it can: returns 0 when done, else the events to poll for before the next
  // call. Fails as Handshake and TlsStream do, and with kPeerLost if the peer closed the
  // connection.
  Result<uint32_t> advance();
  // Whether the peer has sent anything yet.
  bool has_heard() const { return has_heard_; }
  // Progress of the peer. Any program can send a hello; only a peer with the secret can send a
  // proof.
  enum class Progress { kNothing, kHello, kProof };
  Progress progress() const;
  int fd() const { return tls_stream_ != nullptr ? tls_stream_->fd() : socket_.get(); }
  // Once advance() has returned 0; at most once.
  AuthenticatedStream take(const Endpoint& peer);

 private:
  Negotiation(Fd socket, std::unique_ptr<Handshake> handshake, TlsStream::Role role, bool tls);
  Result<uint32_t> exchange_hellos();
  Result<bool> flush();
  Result<bool> receive();

  Fd socket_;
  std::unique_ptr<Handshake> handshake_;
  TlsStream::Role role_;
  bool tls_;
  bool has_heard_ = false;
  std::unique_ptr<TlsStream> tls_stream_;
};

}  // namespace hvd
