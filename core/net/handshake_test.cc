// SPDX-License-Identifier: Apache-2.0
#include "net/handshake.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;
using State = Handshake::State;

// Moves the output of `from` to `to`, at most `limit` bytes at a time; true if any byte was moved.
bool carry(Handshake& from, Handshake& to, size_t limit = 1000) {
  const size_t count = std::min({from.output().size(), to.wanted(), limit});
  if (count == 0) return false;
  to.feed(from.output().first(count));
  from.sent(count);
  return true;
}

void talk(Handshake& a, Handshake& b, size_t limit = 1000) {
  while (carry(a, b, limit) || carry(b, a, limit)) {
  }
}

TEST(Handshake, PeersWithOneSecretAgreeOnKeysThatDifferByDirectionAndConnection) {
  const Secret secret = Secret::generate();
  for (const size_t limit : {1, 7, 1000}) {
    ClientHandshake client(secret, true);
    ServerHandshake server(secret, true);
    talk(client, server, limit);
    ASSERT_EQ(client.state(), State::kDone);
    ASSERT_EQ(server.state(), State::kDone);
    EXPECT_TRUE(client.session_keys().send == server.session_keys().receive);
    EXPECT_TRUE(client.session_keys().receive == server.session_keys().send);
    EXPECT_FALSE(client.session_keys().send == client.session_keys().receive);
    EXPECT_TRUE(client.tls_key() == server.tls_key());
    EXPECT_FALSE(client.tls_key() == client.session_keys().send);

    ClientHandshake other_client(secret, true);
    ServerHandshake other_server(secret, true);
    talk(other_client, other_server);
    EXPECT_FALSE(client.session_keys().send == other_client.session_keys().send);
  }
}

TEST(Handshake, OtherSecretIsNamedOnBothSides) {
  ClientHandshake client(Secret::generate(), false);
  ServerHandshake server(Secret::generate(), false);
  talk(client, server);
  ASSERT_EQ(client.state(), State::kFailed);
  EXPECT_CODE(StatusCode::kUnauthenticated, client.status());
  EXPECT_THAT(client.status().message(), HasSubstr("job secret"));
  ASSERT_EQ(server.state(), State::kFailed);
  EXPECT_CODE(StatusCode::kUnauthenticated, server.status());
  EXPECT_THAT(server.status().message(), HasSubstr("job secret"));
}

TEST(Handshake, OtherTlsSettingIsNamedOnBothSides) {
  const Secret secret = Secret::generate();
  for (const bool tls : {false, true}) {
    ClientHandshake client(secret, tls);
    ServerHandshake server(secret, !tls);
    talk(client, server);
    for (const Handshake* side :
         {static_cast<Handshake*>(&client), static_cast<Handshake*>(&server)}) {
      ASSERT_EQ(side->state(), State::kFailed);
      EXPECT_CODE(StatusCode::kPrecondition, side->status());
      EXPECT_THAT(side->status().message(), HasSubstr("HOROVOD_TLS=0"));
      EXPECT_THAT(side->status().message(), HasSubstr("HOROVOD_TLS=1"));
    }
  }
}

TEST(Handshake, OtherVersionIsNamedOnBothSides) {
  const Secret secret = Secret::generate();
  ClientHandshake client(secret, false);
  ByteBuffer hello(client.output().begin(), client.output().end());
  hello[4] = std::byte{9};
  ServerHandshake server(secret, false);
  server.feed(hello);
  ASSERT_EQ(server.state(), State::kFailed);
  EXPECT_THAT(server.status().message(), HasSubstr("speaks wire version 9, we speak 2"));

  ByteBuffer answer(server.output().begin(), server.output().end());
  answer[4] = std::byte{8};
  client.feed(answer);
  ASSERT_EQ(client.state(), State::kFailed);
  EXPECT_THAT(client.status().message(), HasSubstr("speaks wire version 8, we speak 2"));
}

TEST(Handshake, AnyChangedBitEndsIt) {
  const Secret secret = Secret::generate();
  constexpr size_t kServerSays = Handshake::kHelloSize + Handshake::kProofSize;
  for (size_t i = 0; i < kServerSays; ++i) {
    ClientHandshake client(secret, false);
    ServerHandshake server(secret, false);
    carry(client, server);
    ByteBuffer answer(server.output().begin(), server.output().end());
    ASSERT_EQ(answer.size(), kServerSays);
    answer[i] ^= std::byte{0x10};
    // A wrong magic is detected before the rest arrives.
    client.feed(ConstBytes(answer).first(std::min(i + 1, client.wanted())));
    if (client.wanted() > 0) client.feed(ConstBytes(answer).subspan(i + 1));
    EXPECT_EQ(client.state(), State::kFailed) << "byte " << i;
  }
  for (size_t i = 0; i < Handshake::kProofSize; ++i) {
    ClientHandshake client(secret, false);
    ServerHandshake server(secret, false);
    carry(client, server);
    carry(server, client);
    ByteBuffer proof(client.output().begin(), client.output().end());
    ASSERT_EQ(proof.size(), Handshake::kProofSize);
    proof[i] ^= std::byte{0x10};
    server.feed(proof);
    EXPECT_EQ(server.state(), State::kFailed) << "byte " << i;
  }
}

TEST(Handshake, WordsOfTheVictimItselfProveNothing) {
  const Secret secret = Secret::generate();
  // Reflect the server's own hello and proof to the server.
  ServerHandshake server(secret, false);
  ClientHandshake client(secret, false);
  carry(client, server);
  server.feed(server.output().subspan(Handshake::kHelloSize));
  EXPECT_EQ(server.state(), State::kFailed);
  // A client receives its own hello and the proof of another client.
  ClientHandshake victim(secret, false);
  ByteBuffer answer(victim.output().begin(), victim.output().end());
  answer.resize(answer.size() + Handshake::kProofSize);
  victim.feed(answer);
  EXPECT_EQ(victim.state(), State::kFailed);
}

TEST(Handshake, OldAnswersDoNotWorkAgain) {
  const Secret secret = Secret::generate();
  const Nonce nonce = random_nonce();
  ClientHandshake client(secret, false, nonce);
  ServerHandshake server(secret, false);
  carry(client, server);
  carry(server, client);
  const ByteBuffer proof(client.output().begin(), client.output().end());
  ServerHandshake again(secret, false);
  ClientHandshake recorded(secret, false, nonce);  // the same hello, byte for byte
  carry(recorded, again);
  again.feed(proof);
  EXPECT_EQ(again.state(), State::kFailed);
}

TEST(Handshake, PeerOfAnotherProtocolIsRefusedAtTheFirstWrongByte) {
  ServerHandshake server(Secret::generate(), false);
  server.feed(bytes_of("G"));  // as in GET / HTTP/1.1
  ASSERT_EQ(server.state(), State::kFailed);
  EXPECT_CODE(StatusCode::kUnauthenticated, server.status());
  EXPECT_TRUE(server.output().empty());
  EXPECT_EQ(server.wanted(), 0u);
}

}  // namespace
}  // namespace hvd
