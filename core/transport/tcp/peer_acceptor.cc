// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/peer_acceptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/socket.h"
#include "transport/tcp/stream_links.h"

namespace hvd {
namespace {

// First token of connections that have not greeted yet. Acceptors use the numbers from 1 on in the
// upper half of their tokens.
constexpr uint64_t kPendingTokens = uint64_t{1} << 60;
// Most connections without a greeting. They are authenticated, so they belong to the job; the limit
// guards against a faulty rank.
constexpr size_t kMostPending = 4096;

}  // namespace

Status send_hello(AuthenticatedStream& peer, const Hello& hello, Deadline deadline) {
  ByteBuffer frame;
  HVD_TRY(FrameWriter(peer.keys.send, kHelloLimit).append(encode(hello), frame));
  for (ConstBytes rest = frame; !rest.empty();) {
    HVD_TRY_ASSIGN(const size_t written, peer.stream->write_some(rest));
    rest = rest.subspan(written);
    if (written > 0) continue;
    HVD_TRY(wait_for(peer.stream->fd(), poll_events(peer.stream->write_waits_for()), deadline));
  }
  return Status::ok();
}

HelloReader::HelloReader(const Secret& key) : frames_(key, kHelloLimit) {}

Result<std::optional<ByteBuffer>> HelloReader::advance(Stream& stream) {
  while (true) {
    size_t wanted = kFrameHeaderSize;
    if (bytes_.size() >= kFrameHeaderSize) {
      uint32_t length = 0;
      HVD_TRY(Decoder(bytes_).get(length));
      if (length > kHelloLimit) {
        return invalid_argument(
            fmt::format("greeting of {} bytes, at most {}", length, kHelloLimit));
      }
      wanted += length + kFrameTagSize;
    }
    const size_t have = bytes_.size();
    if (have == wanted && have > kFrameHeaderSize) {
      frames_.feed(bytes_);
      return frames_.next();
    }
    bytes_.resize(wanted);
    const auto got = stream.read_some(Bytes(bytes_).subspan(have));
    bytes_.resize(have + (got.is_ok() ? *got : 0));
    if (!got.is_ok()) return got.status();
    if (*got == 0) return std::optional<ByteBuffer>();
  }
}

struct PeerAcceptor::PendingPeer {
  AuthenticatedStream peer;
  HelloReader reader;
  Deadline deadline;
};

PeerAcceptor::PeerAcceptor(Options options, const Secret& secret, Poller& poller, OnPeer on_peer)
    : options_(std::move(options)),
      secret_(secret),
      poller_(poller),
      on_peer_(std::move(on_peer)),
      next_token_(kPendingTokens) {}

PeerAcceptor::~PeerAcceptor() {
  for (const auto& [token, pending] : pending_) poller_.remove(pending->peer.stream->fd());
}

Status PeerAcceptor::listen(Fd listener, const std::string& name) {
  AcceptorOptions options;
  options.name = name;
  options.tls = options_.tls;
  options.handshake_timeout = options_.patience;
  // All ranks may open their links at the same time.
  options.max_pending = std::max<size_t>(256, 2 * static_cast<size_t>(options_.size));
  const uint64_t token = (acceptors_.size() + 1) << 32;
  HVD_TRY_ASSIGN(auto acceptor,
                 Acceptor::create(std::move(listener), secret_, std::move(options), poller_, token,
                                  [this](AuthenticatedStream peer) { greet(std::move(peer)); }));
  acceptors_.push_back(std::move(acceptor));
  return Status::ok();
}

bool PeerAcceptor::on_event(const PollEvent& event) {
  if (event.token >= kPendingTokens && event.token < next_token_) {
    advance(event.token);
    return true;
  }
  for (const auto& acceptor : acceptors_) {
    if (!acceptor->owns(event.token)) continue;
    acceptor->on_event(event);
    return true;
  }
  return false;
}

void PeerAcceptor::greet(AuthenticatedStream peer) {
  const uint64_t token = next_token_++;
  if (pending_.size() >= kMostPending) {
    refuse(pending_.begin()->first, unavailable("too many connections without a greeting"));
  }
  const int fd = peer.stream->fd();
  const Secret key = peer.keys.receive;
  pending_.emplace(
      token, std::unique_ptr<PendingPeer>(new PendingPeer{std::move(peer), HelloReader(key),
                                                          Deadline::after(options_.patience)}));
  const Status added = poller_.add(fd, kReadable, token);
  if (!added.is_ok()) return refuse(token, added);
  // The greeting has often arrived already. With TLS it may be in the buffer of the TLS library,
  // where the poller cannot see it.
  advance(token);
}

void PeerAcceptor::advance(uint64_t token) {
  const auto found = pending_.find(token);
  if (found == pending_.end()) return;  // the event is older than the close
  PendingPeer& pending = *found->second;
  auto message = pending.reader.advance(*pending.peer.stream);
  if (!message.is_ok()) return refuse(token, message.status());
  if (!message->has_value()) return;
  poller_.remove(pending.peer.stream->fd());
  const std::string who = peer_name(pending.peer.stream->fd(), pending.peer.peer);
  AuthenticatedStream peer = std::move(pending.peer);
  pending_.erase(found);
  const Status admitted = admit(**message, std::move(peer));
  if (!admitted.is_ok()) HVD_LOG(kWarning, "refused {}: {}", who, admitted.message());
}

Status PeerAcceptor::admit(const ByteBuffer& message, AuthenticatedStream peer) {
  HVD_TRY_ASSIGN(const Hello hello, decode_hello(message, options_.size));
  if (hello.round != options_.round) {
    return precondition(fmt::format("rank {} is of round \"{}\", this is round \"{}\"", hello.from,
                                    hello.round, options_.round));
  }
  if (hello.to != options_.rank) {
    return precondition(fmt::format("rank {} looks for rank {}, this is rank {}", hello.from,
                                    hello.to, options_.rank));
  }
  return on_peer_(hello, std::move(peer));
}

void PeerAcceptor::refuse(uint64_t token, const Status& why) {
  const auto found = pending_.find(token);
  const AuthenticatedStream& peer = found->second->peer;
  HVD_LOG(kWarning, "refused {}: {}", peer_name(peer.stream->fd(), peer.peer), why.message());
  poller_.remove(peer.stream->fd());
  pending_.erase(found);
}

Deadline PeerAcceptor::next_deadline() const {
  Deadline next = pending_.empty() ? Deadline::never() : pending_.begin()->second->deadline;
  for (const auto& acceptor : acceptors_) next = earlier(next, acceptor->next_deadline());
  return next;
}

void PeerAcceptor::expire() {
  while (!pending_.empty() && pending_.begin()->second->deadline.expired()) {
    refuse(pending_.begin()->first, timeout_error("no greeting in time"));
  }
  for (const auto& acceptor : acceptors_) acceptor->expire();
}

}  // namespace hvd
