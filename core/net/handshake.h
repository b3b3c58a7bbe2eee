// SPDX-License-Identifier: Apache-2.0
// How two peers prove to each other that they know the job secret, before any other byte of
// either is interpreted. Pure: bytes in, bytes out, no socket.
//
//   client → server   hello   magic "hvdP" · version · flags · nonce             40 bytes
//   server → client   hello   magic "hvdP" · version · flags · nonce · proof     72 bytes
//   client → server   proof                                                      32 bytes
//
// A proof is HMAC-SHA-256 under the secret of the prover's role and both hellos. The role keeps
// anyone from answering a challenge with the other side's own words, the nonces keep old answers
// from working again. All messages have a fixed size, so there is no length to lie about, and
// nothing is read beyond the handshake. A client that finds the server's proof wrong says so with
// a proof of zeros, which lets both sides report the true reason.
//
// Keys for messages and for TLS are derived from the secret and both hellos as well: each
// connection has its own, and only authenticated peers ever reach the TLS library.
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

inline constexpr uint16_t kWireVersion = 2;

class Handshake {
 public:
  static constexpr size_t kHelloSize = 40;
  static constexpr size_t kProofSize = 32;
  enum class State { kRunning, kDone, kFailed };

  virtual ~Handshake() = default;

  State state() const { return state_; }
  // Whether the peer's hello has come, and has our version and HOROVOD_TLS. It proves nothing yet.
  bool has_hello() const {
    return state_ != State::kFailed && transcript_.size() == 2 * kHelloSize;
  }
  // Why it failed.
  const Status& status() const { return status_; }

  // How many more bytes it can take now: never more than the message it waits for.
  size_t wanted() const;
  // `bytes` are at most wanted().
  void feed(ConstBytes bytes);

  // What to send to the peer; also after success or failure, as far as it can be sent.
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
  // The first bytes of a hello; fails as soon as one is wrong, so that a stranger who talks
  // another protocol is not waited for.
  void check_magic();
  void expect(size_t bytes);
  void send(ConstBytes bytes);
  void fail(Status why);
  void finish() { state_ = State::kDone; }
  ByteBuffer own_hello() const;
  // Version and flags of the peer's hello against our own.
  Status check_hello(ConstBytes hello) const;
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
