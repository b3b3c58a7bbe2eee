// SPDX-License-Identifier: Apache-2.0
// Lets peers in: authenticates each connection, reads its greeting and hands it on. A peer that
// says nothing, or the wrong thing, is logged and closed, and nobody else notices.
//
// Belongs to the thread that runs its poller.
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

// Reads one greeting and not a byte more: what follows belongs to whoever gets the connection.
class HelloReader {
 public:
  explicit HelloReader(const Secret& key);
  // The whole message, or nothing until more has arrived.
  Result<std::optional<ByteBuffer>> advance(Stream& stream);

 private:
  FrameReader frames_;
  ByteBuffer bytes_;
};

class PeerAcceptor {
 public:
  struct Options {
    int rank = 0;
    int size = 0;
    std::string round;
    bool tls = false;
    std::chrono::milliseconds patience{10'000};  // for the handshake, and again for the greeting
  };
  // Called with each peer of this job and round; an error is logged and the peer closed.
  using OnPeer = std::function<Status(const Hello& hello, AuthenticatedStream peer)>;

  PeerAcceptor(Options options, const Secret& secret, Poller& poller, OnPeer on_peer);
  ~PeerAcceptor();
  PeerAcceptor(const PeerAcceptor&) = delete;
  PeerAcceptor& operator=(const PeerAcceptor&) = delete;

  Status listen(Fd listener, const std::string& name);

  // Whether the event was ours.
  bool on_event(const PollEvent& event);
  Deadline next_deadline() const;
  void expire();

 private:
  struct PendingPeer;
  void greet(AuthenticatedStream peer);
  void advance(uint64_t token);
  Status admit(const ByteBuffer& message, AuthenticatedStream peer);
  void refuse(uint64_t token, const Status& why);

  const Options options_;
  const Secret secret_;
  Poller& poller_;
  const OnPeer on_peer_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::map<uint64_t, std::unique_ptr<PendingPeer>> pending_;  // by age
  uint64_t next_token_;
};

}  // namespace hvd
