#include "net/acceptor.h"

#include <poll.h>

#include <thread>

#include "net/authenticate.h"
#include "net/codec.h"
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

  // One round, as its owner's loop would do.
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
    // What the peer said right after its handshake belongs to the stream.
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

TEST(Acceptor, BeyondTheBoundTheOldestGoesAndTheLogStaysShort) {
  AcceptorOptions options;
  options.max_pending = 3;
  Driven driven(options);
  ::testing::internal::CaptureStderr();
  std::vector<Fd> silent;
  silent.reserve(10);
  for (int i = 0; i < 10; ++i) silent.push_back(connect_to(driven.where, soon()).value());
  driven.turn_until([&] { return closed_by_peer(silent[6]); });
  EXPECT_EQ(driven.acceptor->pending(), 3u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(closed_by_peer(silent[i]), i < 7) << i;
  const std::string first = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(first, HasSubstr("the oldest of 3 connections"));
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 1);
  // The count of what was left out comes by itself, without another refusal.
  ::testing::internal::CaptureStderr();
  EXPECT_LT(driven.acceptor->next_deadline().remaining(), seconds(2));
  driven.turn(driven.acceptor->next_deadline());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("6 more connections were closed"));
}

}  // namespace
}  // namespace hvd
