// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "base/thread.h"
#include "net/frame.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace hvd::testing {
namespace {

constexpr size_t kHeader = 4;
constexpr size_t kTag = 16;
constexpr size_t kTlsHeader = 5;

bool send_all(const Fd& socket, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket.get(), POLLOUT, Deadline::never()).is_ok()) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct Relay::Connection {
  Fd client;
  Fd server;
  // Written by the thread `to_server`, which then sets `greeted`; read by the other one after that.
  std::optional<Hello::Purpose> purpose{};
  std::atomic<bool> greeted{false};
  std::thread to_server{};
  std::thread to_client{};

  void close() const {
    ::shutdown(client.get(), SHUT_RDWR);
    ::shutdown(server.get(), SHUT_RDWR);
  }
};

// The bytes of one direction that were read and not yet forwarded.
struct Relay::Flow {
  size_t handshake;  // bytes of the handshake that are still to come
  ByteBuffer bytes{};
  ByteBuffer held{};  // a record that is forwarded after the next one
  bool swallows = false;
};

Relay::Relay(const Endpoint& target, int size, bool tls) : target_(target), size_(size), tls_(tls) {
  auto listener = listen_on(Endpoint::loopback());
  HVD_CHECK(listener.is_ok());
  listener_ = std::move(listener).value();
  endpoint_ = *local_endpoint(listener_);
  accepting_ = start_thread("relay", [this] { accept_all(); });
}

Relay::~Relay() {
  stop_ = true;
  accepting_.join();
  for (const auto& connection : connections_) {
    connection->close();
    connection->to_server.join();
    connection->to_client.join();
  }
}

void Relay::strike(const Attack& attack) {
  MutexLock lock(mutex_);
  attack_ = attack;
}

void Relay::accept_all() {
  while (!stop_) {
    const Status ready =
        wait_for(listener_.get(), POLLIN, Deadline::after(std::chrono::milliseconds(20)));
    if (!ready.is_ok()) continue;
    auto client = accept_from(listener_);
    if (!client.is_ok() || !client->valid()) continue;
    auto server = connect_to(target_, Deadline::after(std::chrono::seconds(10)));
    if (!server.is_ok()) continue;
    connections_.push_back(
        std::unique_ptr<Connection>(new Connection{std::move(*client), std::move(*server)}));
    Connection& made = *connections_.back();
    made.to_server = start_thread("to server", [&] { pump(made, Direction::kToServer); });
    made.to_client = start_thread("to client", [&] { pump(made, Direction::kToClient); });
  }
}

void Relay::pump(Connection& connection, Direction direction) {
  const bool up = direction == Direction::kToServer;
  const Fd& from = up ? connection.client : connection.server;
  // Both directions carry a hello and a proof.
  Flow flow{Handshake::kHelloSize + Handshake::kProofSize};
  ByteBuffer part(256 << 10);
  while (true) {
    if (!wait_for(from.get(), POLLIN, Deadline::never()).is_ok()) break;
    const ssize_t count = ::recv(from.get(), part.data(), part.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    if (flow.swallows) continue;
    flow.bytes.insert(flow.bytes.end(), part.begin(), part.begin() + count);
    if (!pass(connection, direction, flow)) break;
  }
  connection.close();
}

size_t Relay::record_size(ConstBytes bytes) const {
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(bytes[i]); };
  size_t size = 0;
  if (tls_) {
    if (bytes.size() < kTlsHeader) return 0;
    size = kTlsHeader + (byte(3) << 8 | byte(4));
  } else {
    if (bytes.size() < kHeader) return 0;
    size = kHeader + (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24) + kTag;
  }
  return bytes.size() < size ? 0 : size;
}

std::optional<Action> Relay::action_for(const Connection& connection, Direction direction) {
  MutexLock lock(mutex_);
  if (!attack_.has_value() || attack_->direction != direction) return std::nullopt;
  if (attack_->purpose.has_value()) {
    if (!connection.greeted || connection.purpose != attack_->purpose) return std::nullopt;
  }
  if (attack_->let_pass > 0) {
    --attack_->let_pass;
    return std::nullopt;
  }
  const Action action = attack_->action;
  attack_.reset();
  return action;
}

bool Relay::pass(Connection& connection, Direction direction, Flow& flow) {
  const bool up = direction == Direction::kToServer;
  const Fd& to = up ? connection.server : connection.client;
  const auto take = [&](size_t count) {
    ByteBuffer taken(flow.bytes.begin(), flow.bytes.begin() + static_cast<std::ptrdiff_t>(count));
    flow.bytes.erase(flow.bytes.begin(), flow.bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return taken;
  };
  if (flow.handshake > 0) {
    const size_t count = std::min(flow.handshake, flow.bytes.size());
    flow.handshake -= count;
    if (!send_all(to, take(count))) return false;
  }
  while (const size_t size = record_size(flow.bytes)) {
    ByteBuffer record = take(size);
    if (!tls_ && up && !connection.greeted) {
      const auto hello =
          decode_hello(ConstBytes(record).subspan(kHeader, size - kHeader - kTag), size_);
      if (hello.is_ok()) connection.purpose = hello->purpose;
      connection.greeted = true;
      if (!send_all(to, record)) return false;
      continue;
    }
    if (!flow.held.empty()) {
      struck_ = true;  // before the send: the receiver may check it as soon as it has the record
      if (!send_all(to, record) || !send_all(to, std::exchange(flow.held, {}))) return false;
      continue;
    }
    const auto action = action_for(connection, direction);
    if (!action.has_value()) {
      if (!send_all(to, record)) return false;
      continue;
    }
    const size_t length_at = tls_ ? 4 : 0;  // its lowest byte
    struck_ = *action != Action::kSwap;
    switch (*action) {
      case Action::kChangePayload: record[(tls_ ? kTlsHeader : kHeader)] ^= std::byte{1}; break;
      case Action::kChangeTag: record.back() ^= std::byte{1}; break;
      case Action::kShortenLength:
        record[length_at] = static_cast<std::byte>(std::to_integer<int>(record[length_at]) - 1);
        break;
      case Action::kRaiseLength: record[length_at + (tls_ ? 0 : 1)] ^= std::byte{4}; break;
      case Action::kRepeat:
        if (!send_all(to, record)) return false;
        break;
      case Action::kDrop: continue;
      case Action::kSwap: flow.held = std::move(record); continue;
      case Action::kCut:
        (void)send_all(to, ConstBytes(record).first(record.size() / 2));
        return false;
      case Action::kSwallow: flow.swallows = true; return true;
    }
    if (!send_all(to, record)) return false;
  }
  return true;
}

}  // namespace hvd::testing
