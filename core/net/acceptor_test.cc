// SPDX-License-Identifier: Apache-2.0
#include "net/acceptor.h"

#include <poll.h>

#include <thread>

#include "net/authenticate.h"
#include "net/codec.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr uint64_t kTokens = uint64_t{5} << 32;

Deadline soon() { return Deadline::after(seconds(10)); }

// An acceptor that the test's own thread drives.
struct Driven {
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Acceptor> acceptor;
  std::vector<AuthenticatedStream> accepted;
  Secret secret = Secret::generate();
  Endpoint where;

  explicit Driven(AcceptorOptions options) : poller(Poller::create().value()) {
    auto listener = listen_on(Endpoint::loopback());
    where = *local_endpoint(*listener);
    acceptor = Acceptor::create(
                   std::move(*listener), secret, std::move(options), *poller, kTokens,
                   [this](AuthenticatedStream stream) { accepted.push_back(std::move(stream)); })
                   .value();
  }

  // One round of the owner's loop.
  void turn(Deadline limit) {
    std::vector<PollEvent> events;
    EXPECT_OK(poller->wait(events, earlier(limit, acceptor->next_deadline())));
    for (const PollEvent& event : events) {
      EXPECT_TRUE(acceptor->owns(event.token));
      acceptor->on_event(event);
    }
    acceptor->expire();
  }
  template <typename Condition>
  void turn_until(Condition done) {
    const Deadline limit = soon();
    while (!done() && !limit.expired()) turn(limit);
    EXPECT_TRUE(done());
  }
};

bool closed_by_peer(const Fd& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(Acceptor, HandsOutAuthenticatedPeersBesideSilentOnes) {
  for (const bool tls : {false, true}) {
    AcceptorOptions options;
    options.tls = tls;
    Driven driven(options);
    const Fd silent = connect_to(driven.where, soon()).value();
    std::thread client([&] {
      auto socket = connect_to(driven.where, soon());
      ASSERT_OK(socket);
      auto stream = connect_stream(std::move(*socket), driven.secret, {tls}, soon());
      ASSERT_OK(stream);
      EXPECT_EQ(stream->peer, driven.where);
      EXPECT_EQ(*stream->stream->write_some(bytes_of("first bytes")), 11u);
    });
    driven.turn_until([&] { return driven.accepted.size() == 1; });
    client.join();
    ASSERT_EQ(driven.accepted.size(), 1u);
    EXPECT_EQ(driven.acceptor->pending(), 1u);
    EXPECT_EQ(driven.accepted[0].peer.host(), "127.0.0.1");
    // Bytes that the peer sends right after its handshake belong to the stream.
    std::array<std::byte, 32> in;
    ASSERT_OK(wait_for(driven.accepted[0].stream->fd(), POLLIN, soon()));
    EXPECT_EQ(*driven.accepted[0].stream->read_some(in), 11u);
  }
}

TEST(Acceptor, SilentPeerIsClosedAtItsDeadlineWithALine) {
  AcceptorOptions options;
  options.name = "test listener";
  options.handshake_timeout = milliseconds(30);
  Driven driven(options);
  EXPECT_TRUE(driven.acceptor->next_deadline().is_never());
  ::testing::internal::CaptureStderr();
  const Fd silent = connect_to(driven.where, soon()).value();
  driven.turn_until([&] { return driven.acceptor->pending() == 1; });
  EXPECT_FALSE(driven.acceptor->next_deadline().is_never());
  driven.turn_until([&] { return driven.acceptor->pending() == 0; });
  EXPECT_TRUE(closed_by_peer(silent));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("test listener: refused " + local_endpoint(silent)->to_string() +
                        ": did not authenticate itself in time"));
}

TEST(Acceptor, BeyondTheBoundOneGoesAndTheLogStaysShort) {
  AcceptorOptions options;
  options.max_pending = 3;
  options.choose = [](size_t) { return 0; };
  Driven driven(options);
  ::testing::internal::CaptureStderr();
  std::vector<Fd> silent;
  silent.reserve(10);
  for (int i = 0; i < 10; ++i) silent.push_back(connect_to(driven.where, soon()).value());
  driven.turn_until([&] { return closed_by_peer(silent[6]); });
  EXPECT_EQ(driven.acceptor->pending(), 3u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(closed_by_peer(silent[i]), i < 7) << i;
  const std::string first = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(first, HasSubstr("closed to make room: more than 3 connections"));
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 1);
  // The count of lines left out is logged by itself, without another refusal.
  ::testing::internal::CaptureStderr();
  EXPECT_LT(driven.acceptor->next_deadline().remaining(), seconds(2));
  driven.turn(driven.acceptor->next_deadline());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("6 more connections were closed"));
}

// A client whose handshake the test advances step by step.
struct SlowClient {
  Fd socket;
  ClientHandshake handshake;

  SlowClient(Driven& driven, const Secret& secret)
      : socket(connect_to(driven.where, soon()).value()), handshake(secret, false) {}
  void send() {
    const ConstBytes output = handshake.output();
    ASSERT_EQ(::send(socket.get(), output.data(), output.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(output.size()));
    handshake.sent(output.size());
  }
  bool has_answer() const {
    std::array<std::byte, Handshake::kHelloSize + Handshake::kProofSize> bytes;
    return ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_PEEK) ==
           static_cast<ssize_t>(bytes.size());
  }
  void receive() {
    std::vector<std::byte> bytes(handshake.wanted());
    ASSERT_EQ(::recv(socket.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    handshake.feed(bytes);
  }
};

TEST(Acceptor, AFloodOfSilentConnectionsDoesNotEndAHandshakeThatHasBegun) {
  AcceptorOptions options;
  options.max_pending = 4;
  // The worst choice for the honest client, which is the oldest. Its hello protects it.
  options.choose = [](size_t) { return 0; };
  Driven driven(options);
  ::testing::internal::CaptureStderr();
  SlowClient honest(driven, driven.secret);
  honest.send();
  driven.turn_until([&] { return honest.has_answer(); });
  std::vector<Fd> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(connect_to(driven.where, soon()).value());
  driven.turn_until([&] { return closed_by_peer(flood[16]); });
  EXPECT_EQ(driven.acceptor->pending(), 4u);
  honest.receive();
  honest.send();
  driven.turn_until([&] { return driven.accepted.size() == 1; });
  EXPECT_EQ(driven.acceptor->pending(), 3u);
  (void)::testing::internal::GetCapturedStderr();
}

TEST(Acceptor, OfManyThatHaveSentAHelloAChosenOneGoes) {
  AcceptorOptions options;
  options.max_pending = 3;
  std::vector<size_t> asked;
  options.choose = [&](size_t count) {
    asked.push_back(count);
    return size_t{2};
  };
  Driven driven(options);
  ::testing::internal::CaptureStderr();
  std::vector<std::unique_ptr<SlowClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<SlowClient>(driven, Secret::generate()));
    clients.back()->send();
    driven.turn_until([&] { return clients.back()->has_answer(); });
  }
  // All four had sent a hello, so the choice was among all of them, including the newest.
  EXPECT_THAT(asked, ::testing::ElementsAre(4u));
  (void)::testing::internal::GetCapturedStderr();
  for (size_t i = 0; i < 4; ++i) {
    clients[i]->receive();
    EXPECT_EQ(closed_by_peer(clients[i]->socket), i == 2) << i;
  }
}

TEST(Acceptor, WithoutAChoiceAnyOfThemMayGo) {
  // With a bound of 32 and 200 connections, the newest 32 remain by chance in fewer than one of
  // 10^20 runs if all are equally likely to be closed.
  AcceptorOptions options;
  options.max_pending = 32;
  Driven driven(options);
  ::testing::internal::CaptureStderr();
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect_to(driven.where, soon()).value());
  const auto open = [&](size_t from) {
    return std::count_if(silent.begin() + static_cast<std::ptrdiff_t>(from), silent.end(),
                         [](const Fd& each) { return !closed_by_peer(each); });
  };
  driven.turn_until([&] { return open(0) == 32; });
  EXPECT_LT(open(200 - 32), 32);
  (void)::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace hvd
