// SPDX-License-Identifier: Apache-2.0
// Accepts connections of peers: authenticates each connection, reads its greeting (Hello in
// tcp/wire.h), and passes the connection to OnPeer. If the greeting is missing or wrong, the
// connection is logged and closed, without effect on other connections.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/acceptor.h"
#include "net/frame.h"
#include "net/poller.h"
#include "net/secret.h"
#include "net/stream.h"
#include "transport/tcp/wire.h"

namespace hvd {

// Sends the greeting on a fresh connection.
Status send_hello(AuthenticatedStream& peer, const Hello& hello, Deadline deadline);

// Reads one greeting and no byte more: the bytes that follow belong to the next owner of the
// connection.
class HelloReader {
 public:
  explicit HelloReader(const Secret& key);
  // The whole message, or nullopt until more bytes have arrived.
  Result<std::optional<ByteBuffer>> advance(Stream& stream);

 private:
  FrameReader frames_;
  ByteBuffer bytes_;
};

// Belongs to the thread that runs its poller (hvd-net), except listen() before that thread starts.
// `poller` must outlive it. Owns the listeners, and connections until they are passed to OnPeer.
class PeerAcceptor {
 public:
  struct Options {
    int rank = 0;
    int size = 0;
    std::string round;
    bool tls = false;
    std::chrono::milliseconds patience{10'000};  // each, for the handshake and for the greeting
  };
  // Called with each connection of this job and round. An error is logged and closes the
  // connection.
  using OnPeer = std::function<Status(const Hello& hello, AuthenticatedStream peer)>;

  PeerAcceptor(Options options, const Secret& secret, Poller& poller, OnPeer on_peer);
  ~PeerAcceptor();
  PeerAcceptor(const PeerAcceptor&) = delete;
  PeerAcceptor& operator=(const PeerAcceptor&) = delete;

  Status listen(Fd listener, const std::string& name);

  // Whether the event belongs to a listener or a pending connection.
  bool on_event(const PollEvent& event);
  Deadline next_deadline() const;
  // Closes connections that have not authenticated or greeted in time.
  void expire();

 private:
  struct PendingPeer;
  // accepted and authenticated → greet() → advance() until the greeting is complete → admit()
  //                                                                                └→ refuse()
  void greet(AuthenticatedStream peer);
  void advance(uint64_t token);
  Status admit(const ByteBuffer& message, AuthenticatedStream peer);
  void refuse(uint64_t token, const Status& why);

  const Options options_;
  const Secret secret_;
  Poller& poller_;
  const OnPeer on_peer_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  // Connections without a greeting, by token. Tokens grow, so the first one is the oldest.
  std::map<uint64_t, std::unique_ptr<PendingPeer>> pending_;
  uint64_t next_token_;
};

}  // namespace hvd
