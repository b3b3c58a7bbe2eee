// SPDX-License-Identifier: Apache-2.0
// One peer on its way from a bare socket to an authenticated stream: the handshake, then TLS. Never
// blocks; both the client, which waits, and the acceptor, which serves many, drive it.
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

  // Goes as far as it can: 0 when done, else what to poll for before the next call.
  Result<uint32_t> advance();
  // Whether the peer has sent anything yet.
  bool has_heard() const { return has_heard_; }
  // How far the peer has come. Anybody can send a hello, only a peer with the secret a proof.
  enum class Progress { kNothing, kHello, kProof };
  Progress progress() const;
  int fd() const { return tls_stream_ != nullptr ? tls_stream_->fd() : socket_.get(); }
  // Once done.
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
