// SPDX-License-Identifier: Apache-2.0
#include "net/negotiation.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace hvd {
namespace {

Status hung_up(std::string_view how) {
  return {StatusCode::kPeerLost, "hung up before it authenticated itself (" + std::string(how) +
                                     "); its own log says why"};
}

}  // namespace

Negotiation::Negotiation(Fd socket, std::unique_ptr<Handshake> handshake, TlsStream::Role role,
                         bool tls)
    : socket_(std::move(socket)), handshake_(std::move(handshake)), role_(role), tls_(tls) {}

Negotiation Negotiation::as_client(Fd socket, const Secret& secret, bool tls) {
  return {std::move(socket), std::make_unique<ClientHandshake>(secret, tls),
          TlsStream::Role::kClient, tls};
}

Negotiation Negotiation::as_server(Fd socket, const Secret& secret, bool tls) {
  return {std::move(socket), std::make_unique<ServerHandshake>(secret, tls),
          TlsStream::Role::kServer, tls};
}

Result<uint32_t> Negotiation::advance() {
  if (tls_stream_ == nullptr) {
    HVD_TRY_ASSIGN(const uint32_t blocked_on, exchange_hellos());
    if (blocked_on != 0 || !tls_) return blocked_on;
    HVD_TRY_ASSIGN(tls_stream_,
                   TlsStream::create(std::move(socket_), role_, handshake_->tls_key()));
  }
  return tls_stream_->shake_hands();
}

Negotiation::Progress Negotiation::progress() const {
  if (handshake_->state() == Handshake::State::kDone) return Progress::kProof;
  return handshake_->has_hello() ? Progress::kHello : Progress::kNothing;
}

Result<uint32_t> Negotiation::exchange_hellos() {
  while (true) {
    // Send the output also after a failure: it tells the peer the reason.
    const Result<bool> flushed = flush();
    if (handshake_->state() == Handshake::State::kFailed) return handshake_->status();
    if (!flushed.is_ok()) return flushed.status();
    if (!*flushed) return kWritable;
    if (handshake_->state() == Handshake::State::kDone) return uint32_t{0};
    HVD_TRY_ASSIGN(const bool received, receive());
    if (!received) return kReadable;
  }
}

Result<bool> Negotiation::flush() {
  while (!handshake_->output().empty()) {
    const ConstBytes output = handshake_->output();
    const ssize_t count = ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      handshake_->sent(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return hung_up(io_error("send", errno).message());
    }
  }
  return true;
}

Result<bool> Negotiation::receive() {
  std::array<std::byte, Handshake::kHelloSize + Handshake::kProofSize> buffer;
  const size_t wanted = handshake_->wanted();
  ssize_t count = 0;
  do {
    count = ::recv(socket_.get(), buffer.data(), wanted, 0);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return hung_up("end of stream");
  if (count < 0) {
    if (errno == EAGAIN) return false;
    return hung_up(io_error("receive", errno).message());
  }
  has_heard_ = true;
  handshake_->feed(ConstBytes(buffer).first(static_cast<size_t>(count)));
  return true;
}

AuthenticatedStream Negotiation::take(const Endpoint& peer) {
  SessionKeys keys = handshake_->session_keys();
  if (tls_) return {std::move(tls_stream_), std::move(keys), peer};
  return {make_socket_stream(std::move(socket_)), std::move(keys), peer};
}

}  // namespace hvd
