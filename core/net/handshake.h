// SPDX-License-Identifier: Apache-2.0
// Two peers prove to each other that they have the job secret, before either interprets any other
// byte. Without a socket: bytes in, bytes out.
//
//   direction       | message       | content                | bytes
//   ----------------+---------------+------------------------+------
//   client → server | hello         | see below              | 40
//   server → client | hello · proof | hello, HMAC-SHA-256    | 40 + 32
//   client → server | proof         | HMAC-SHA-256, or zeros | 32
//
//   hello:
//   offset | bytes | field
//   -------+-------+-------------------------------------------------
//   0      | 4     | magic "hvdP"
//   4      | 2     | wire version (kWireVersion), uint16, little-endian
//   6      | 2     | flags, uint16, little-endian; bit 0: HOROVOD_TLS
//   8      | 32    | nonce, random
//
//   proof = HMAC-SHA-256(secret, label of the prover's role · client's hello · server's hello)
//
// The label of the role prevents a reflection: an attacker cannot send a proof back to the side
// that made it. The nonces prevent a replay: a recorded proof is not accepted again. All messages
// have a fixed size, so a peer cannot lie about a length, and nothing is read beyond the handshake.
// A client that finds the server's proof wrong sends 32 zeros, so that both sides can report the
// true reason.
//
// The keys for messages and for TLS are derived from the secret and both hellos in the same way,
// with other labels, so each connection has its own keys. TLS begins after the handshake, so only
// authenticated peers reach the TLS library.
//
//   server: wait for hello ──▶ send hello · proof ──▶ wait for proof ──▶ kDone
//   client: send hello ──▶ wait for hello · proof ──▶ send proof ──▶ kDone
//   a wrong magic, version, flag or proof in any state ──▶ kFailed (permanent)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/secret.h"
#include "net/stream.h"

namespace hvd {

using Nonce = std::array<std::byte, 32>;
Nonce random_nonce();

// Changes with every incompatible change of any message between processes.
inline constexpr uint16_t kWireVersion = 2;

// Not thread-safe. The owner moves bytes between this object and its socket:
// read wanted() bytes, feed() them, write output(), report with sent().
class Handshake {
 public:
  static constexpr size_t kHelloSize = 40;
  static constexpr size_t kProofSize = 32;
  enum class State { kRunning, kDone, kFailed };

  virtual ~Handshake() = default;

  State state() const { return state_; }
  // Whether the peer's hello has arrived and has our version and our HOROVOD_TLS. Any program can
  // send a hello, so it does not authenticate the peer.
  bool has_hello() const {
    return state_ != State::kFailed && transcript_.size() == 2 * kHelloSize;
  }
  // Why it failed: kUnauthenticated (protocol or secret) or kPrecondition (version or HOROVOD_TLS).
  const Status& status() const { return status_; }

  // The bytes that feed() accepts now: the rest of the message that it waits for. 0 when it has
  // ended.
  size_t wanted() const;
  // `bytes` are at most wanted().
  void feed(ConstBytes bytes);

  // The bytes to send to the peer. The owner sends them also after success, and after a failure as
  // far as the socket takes them, so that the peer learns the reason.
  ConstBytes output() const { return ConstBytes(output_).subspan(output_start_); }
  void sent(size_t bytes) { output_start_ += bytes; }

  // Only when done.
  SessionKeys session_keys() const;
  Secret tls_key() const;

 protected:
  enum class Role { kClient, kServer };
  Handshake(Role role, const Secret& secret, bool tls, const Nonce& nonce);

  // A whole message of `expected_` bytes is in `input_`.
  virtual void on_message() = 0;
  // Fails as soon as one byte of the magic is wrong. A peer of another protocol may send fewer
  // bytes than a hello has, and this side would wait for the rest.
  void check_magic();
  void expect(size_t bytes);
  void send(ConstBytes bytes);
  void fail(Status why);
  void finish() { state_ = State::kDone; }
  ByteBuffer own_hello() const;
  // Compares version and flags of the peer's hello with our own.
  Status check_hello(ConstBytes hello) const;
  // HMAC-SHA-256(secret, label · transcript).
  Digest derive(std::string_view label) const;

  const Role role_;
  const Secret secret_;
  const bool tls_;
  const Nonce nonce_;
  ByteBuffer input_;
  ByteBuffer transcript_;  // client's hello, then server's hello

 private:
  State state_ = State::kRunning;
  Status status_;
  size_t expected_ = 0;
  ByteBuffer output_;
  size_t output_start_ = 0;
};

class ClientHandshake final : public Handshake {
 public:
  ClientHandshake(const Secret& secret, bool tls, const Nonce& nonce = random_nonce());

 private:
  void on_message() override;
};

class ServerHandshake final : public Handshake {
 public:
  ServerHandshake(const Secret& secret, bool tls, const Nonce& nonce = random_nonce());

 private:
  void on_message() override;
  void on_hello();
  void on_proof();
  bool have_hello_ = false;
};

}  // namespace hvd
