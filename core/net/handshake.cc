// SPDX-License-Identifier: Apache-2.0
#include "net/handshake.h"

#include <algorithm>

namespace hvd {
namespace {

constexpr std::string_view kMagic = "hvdP";
constexpr uint16_t kFlagTls = 1;
// A client sends this if the server's proof is wrong. No valid proof is all zeros.
constexpr std::array<std::byte, Handshake::kProofSize> kRefusal{};

// The labels make values for different purposes differ, although they are derived from the same
// transcript. No label is the beginning of another label, so two different pairs of label and
// transcript are never the same bytes.
constexpr std::string_view kServerProof = "hvd server proof:";
constexpr std::string_view kClientProof = "hvd client proof:";
constexpr std::string_view kClientKey = "hvd client to server key:";
constexpr std::string_view kServerKey = "hvd server to client key:";
constexpr std::string_view kTlsKey = "hvd tls pre-shared key:";

constexpr char kOtherSecret[] =
    "does not have our job secret; start all ranks with the same launcher, or give them the same "
    "secret";

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

Handshake::Handshake(Role role, const Secret& secret, bool tls, const Nonce& nonce)
    : role_(role), secret_(secret), tls_(tls), nonce_(nonce) {}

size_t Handshake::wanted() const {
  return state_ == State::kRunning ? expected_ - input_.size() : 0;
}

void Handshake::feed(ConstBytes bytes) {
  HVD_CHECK(bytes.size() <= wanted());
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  check_magic();
  if (state_ == State::kRunning && !input_.empty() && input_.size() == expected_) on_message();
}

void Handshake::check_magic() {
  if (expected_ < kHelloSize) return;  // a proof has no magic
  const size_t count = std::min(input_.size(), kMagic.size());
  if (text_of(ConstBytes(input_).first(count)) == kMagic.substr(0, count)) return;
  fail(
      unauthenticated("does not speak this protocol; check the address, or find out which program "
                      "connects to the port"));
}

void Handshake::expect(size_t bytes) {
  input_.clear();
  expected_ = bytes;
}

void Handshake::send(ConstBytes bytes) {
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void Handshake::fail(Status why) {
  state_ = State::kFailed;
  status_ = std::move(why);
}

ByteBuffer Handshake::own_hello() const {
  Encoder encoder;
  encoder.put(kWireVersion).put(static_cast<uint16_t>(tls_ ? kFlagTls : 0));
  ByteBuffer hello(kHelloSize);
  auto end = std::copy_n(bytes_of(kMagic).begin(), kMagic.size(), hello.begin());
  end = std::copy_n(encoder.bytes().begin(), encoder.bytes().size(), end);
  std::copy(nonce_.begin(), nonce_.end(), end);
  return hello;
}

Status Handshake::check_hello(ConstBytes hello) const {
  Decoder decoder(hello.subspan(kMagic.size()));
  uint16_t version = 0;
  uint16_t flags = 0;
  HVD_TRY(decoder.get(version));
  HVD_TRY(decoder.get(flags));
  if (version != kWireVersion) {
    return precondition("speaks wire version " + std::to_string(version) + ", we speak " +
                        std::to_string(kWireVersion) +
                        "; install the same version of horovod on every host");
  }
  if (flags != (tls_ ? kFlagTls : 0)) {
    return precondition(std::string("has HOROVOD_TLS=") + ((flags & kFlagTls) != 0 ? "1" : "0") +
                        ", we have HOROVOD_TLS=" + (tls_ ? "1" : "0") +
                        "; set it to the same value on every rank");
  }
  return Status::ok();
}

Digest Handshake::derive(std::string_view label) const {
  return hmac_sha256(secret_, {bytes_of(label), transcript_});
}

SessionKeys Handshake::session_keys() const {
  HVD_CHECK(state_ == State::kDone);
  const Secret client = Secret::from_bytes(derive(kClientKey));
  const Secret server = Secret::from_bytes(derive(kServerKey));
  return role_ == Role::kClient ? SessionKeys{client, server} : SessionKeys{server, client};
}

Secret Handshake::tls_key() const {
  HVD_CHECK(state_ == State::kDone);
  return Secret::from_bytes(derive(kTlsKey));
}

ClientHandshake::ClientHandshake(const Secret& secret, bool tls, const Nonce& nonce)
    : Handshake(Role::kClient, secret, tls, nonce) {
  transcript_ = own_hello();
  send(transcript_);
  expect(kHelloSize + kProofSize);
}

void ClientHandshake::on_message() {
  const ConstBytes hello = ConstBytes(input_).first(kHelloSize);
  const ConstBytes proof = ConstBytes(input_).subspan(kHelloSize);
  const Status agreement = check_hello(hello);
  // A peer of another version may compute its proof differently. So the version that it claims is
  // reported although its proof is wrong.
  transcript_.insert(transcript_.end(), hello.begin(), hello.end());
  if (!equal_in_constant_time(proof, derive(kServerProof))) {
    send(kRefusal);
    return fail(agreement.is_ok() ? unauthenticated(kOtherSecret) : agreement);
  }
  if (!agreement.is_ok()) return fail(agreement);
  send(derive(kClientProof));
  finish();
}

ServerHandshake::ServerHandshake(const Secret& secret, bool tls, const Nonce& nonce)
    : Handshake(Role::kServer, secret, tls, nonce) {
  expect(kHelloSize);
}

void ServerHandshake::on_message() { have_hello_ ? on_proof() : on_hello(); }

void ServerHandshake::on_hello() {
  have_hello_ = true;
  const Status agreement = check_hello(input_);
  const ByteBuffer hello = own_hello();
  transcript_ = input_;
  transcript_.insert(transcript_.end(), hello.begin(), hello.end());
  // Sent also if version or flags differ: the client then learns the reason.
  send(hello);
  send(derive(kServerProof));
  if (!agreement.is_ok()) return fail(agreement);
  expect(kProofSize);
}

void ServerHandshake::on_proof() {
  if (equal_in_constant_time(input_, derive(kClientProof))) return finish();
  fail(
      unauthenticated(equal_in_constant_time(input_, kRefusal)
                          ? "found that we do not have its job secret; is it a rank of another job?"
                          : kOtherSecret));
}

}  // namespace hvd
