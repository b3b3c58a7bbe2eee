// SPDX-License-Identifier: Apache-2.0
#include "net/channel.h"

#include <poll.h>

#include <thread>
#include <utility>

#include "net/negotiation.h"
#include "net/socket.h"
#include "net/tagged_stream.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline soon() { return Deadline::after(seconds(10)); }

struct Variant {
  const char* name;
  Endpoint where;
  bool tls;
  bool tags = false;
  bool new_keys = false;  // TLS with a new key for every third record
};

// The client's and the server's end.
Result<std::pair<Fd, Fd>> connect_through(const Fd& listener) {
  HVD_TRY_ASSIGN(const Endpoint where, local_endpoint(listener));
  HVD_TRY_ASSIGN(Fd near, connect_to(where, soon()));
  HVD_TRY(wait_for(listener.get(), POLLIN, soon()));
  HVD_TRY_ASSIGN(Fd far, accept_from(listener));
  return std::pair(std::move(near), std::move(far));
}

// Two ends of one authenticated connection in this process.
class Connected : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    const auto listener = listen_on(GetParam().where);
    if (!listener.is_ok() && GetParam().where.family() == AF_INET6) {
      GTEST_SKIP() << "no IPv6 on this machine: " << listener.status().message();
    }
    ASSERT_OK(listener);
    auto ends = connect_through(*listener);
    ASSERT_OK(ends);
    const Secret secret = Secret::generate();
    Negotiation client = Negotiation::as_client(std::move(ends->first), secret, GetParam().tls);
    Negotiation server = Negotiation::as_server(std::move(ends->second), secret, GetParam().tls);
    uint32_t client_waits = kReadable;
    uint32_t server_waits = kReadable;
    const Deadline deadline = soon();
    while ((client_waits | server_waits) != 0 && !deadline.expired()) {
      for (auto [side, waits] : {std::pair{&client, &client_waits}, {&server, &server_waits}}) {
        if (*waits == 0) continue;
        const auto outcome = side->advance();
        ASSERT_OK(outcome);
        *waits = *outcome;
      }
    }
    client_ = client.take(GetParam().where);
    server_ = server.take(GetParam().where);
    if (GetParam().new_keys) {
      for (AuthenticatedStream* end : {&client_, &server_}) tls_of(*end).change_key_after(3);
    }
    if (!GetParam().tags) return;
    for (AuthenticatedStream* end : {&client_, &server_}) {
      end->stream = std::make_unique<TaggedStream>(std::move(end->stream), end->keys);
    }
  }

  static TlsStream& tls_of(AuthenticatedStream& end) {
    return dynamic_cast<TlsStream&>(*end.stream);
  }
  AuthenticatedStream empty() {
    return {nullptr, {Secret::generate(), Secret::generate()}, Endpoint()};
  }
  AuthenticatedStream client_ = empty();
  AuthenticatedStream server_ = empty();
};

INSTANTIATE_TEST_SUITE_P(Variants, Connected,
                         ::testing::Values(Variant{"IPv4", Endpoint::loopback(), false},
                                           Variant{"IPv6", Endpoint::loopback_v6(), false},
                                           Variant{"IPv4Tls", Endpoint::loopback(), true},
                                           Variant{"IPv6Tls", Endpoint::loopback_v6(), true},
                                           Variant{"IPv4TlsNewKeys", Endpoint::loopback(), true,
                                                   false, true},
                                           Variant{"IPv4Tags", Endpoint::loopback(), false, true}),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(Connected, StreamCarriesEveryByteThroughFullBuffers) {
  constexpr size_t kSize = size_t{12} << 20;  // more than the kernel buffers of both ends
  std::vector<std::byte> sent(kSize);
  for (size_t i = 0; i < kSize; ++i) sent[i] = static_cast<std::byte>(i * 31 + (i >> 12));
  std::vector<std::byte> received(kSize);
  size_t out = 0;
  size_t in = 0;
  bool was_full = false;
  const Deadline deadline = soon();
  while (in < kSize && !deadline.expired()) {
    while (out < kSize) {
      // In pieces at different addresses, like a header and its data.
      const ConstBytes rest = ConstBytes(sent).subspan(out);
      const std::array<ConstBytes, 2> pieces{rest.first(std::min<size_t>(rest.size(), 5)),
                                             rest.subspan(std::min<size_t>(rest.size(), 5))};
      const auto count = client_.stream->write_gather(pieces);
      ASSERT_OK(count);
      out += *count;
      if (*count == 0) {
        was_full = true;
        break;
      }
    }
    // An odd size, so that TLS records are left half read.
    const size_t wanted = std::min<size_t>(kSize - in, 1'000'003);
    const auto count = server_.stream->read_some(Bytes(received).subspan(in, wanted));
    ASSERT_OK(count);
    in += *count;
  }
  EXPECT_TRUE(was_full);
  EXPECT_EQ(server_.stream->has_buffered(), false);
  EXPECT_TRUE(received == sent);
}

// Both sides write until their sockets are full before they read: reading must not need room in the
// reader's own socket.
TEST_P(Connected, BothDirectionsAtOnceThroughFullBuffers) {
  constexpr size_t kSize = size_t{12} << 20;
  struct Side {
    AuthenticatedStream* end;
    std::vector<std::byte> sent;
    std::vector<std::byte> received;
    size_t out = 0;
    size_t in = 0;
    bool was_full = false;
  };
  std::array<Side, 2> sides{Side{&client_, std::vector<std::byte>(kSize), {}},
                            Side{&server_, std::vector<std::byte>(kSize), {}}};
  for (size_t i = 0; i < kSize; ++i) {
    sides[0].sent[i] = static_cast<std::byte>(i * 31 + (i >> 12));
    sides[1].sent[i] = static_cast<std::byte>(i * 7 + (i >> 13));
  }
  for (Side& side : sides) side.received.resize(kSize);
  const Deadline deadline = soon();
  const auto done = [&] { return sides[0].in == kSize && sides[1].in == kSize; };
  while (!done() && !deadline.expired()) {
    for (Side& side : sides) {
      while (side.out < kSize) {
        const auto count = side.end->stream->write_some(ConstBytes(side.sent).subspan(side.out));
        ASSERT_OK(count);
        side.out += *count;
        if (*count > 0) continue;
        side.was_full = true;
        break;
      }
    }
    for (Side& side : sides) {
      if (side.in == kSize) continue;
      const size_t wanted = std::min<size_t>(kSize - side.in, 100'003);
      const auto count = side.end->stream->read_some(Bytes(side.received).subspan(side.in, wanted));
      ASSERT_OK(count);
      side.in += *count;
    }
  }
  EXPECT_TRUE(sides[0].was_full && sides[1].was_full);
  EXPECT_TRUE(sides[0].received == sides[1].sent);
  EXPECT_TRUE(sides[1].received == sides[0].sent);
  if (!GetParam().new_keys) return;
  // 768 records of 16 KiB in each direction, if none is shorter.
  EXPECT_GE(tls_of(client_).key_changes(), 255u);
  EXPECT_GE(tls_of(server_).key_changes(), 255u);
}

TEST_P(Connected, BytesInsideTheStreamAreShown) {
  ASSERT_EQ(*client_.stream->write_some(bytes_of("hello")), 5u);
  ASSERT_OK(wait_for(server_.stream->fd(), POLLIN, soon()));
  std::array<std::byte, 2> in;
  ASSERT_EQ(*server_.stream->read_some(in), 2u);
  EXPECT_EQ(server_.stream->has_buffered(), GetParam().tls || GetParam().tags);
}

TEST_P(Connected, MessagesArriveInOrderBothWays) {
  Channel client(std::move(client_));
  Channel server(std::move(server_));
  const ByteBuffer large(size_t{3} << 20, std::byte{42});
  std::thread echo([&] {
    for (int i = 0; i < 3; ++i) {
      const auto message = server.recv(soon());
      ASSERT_OK(message);
      ASSERT_OK(server.send(*message, soon()));
    }
  });
  for (const ConstBytes message : {bytes_of("first"), bytes_of(""), ConstBytes(large)}) {
    ASSERT_OK(client.send(message, soon()));
    const auto answer = client.recv(soon());
    ASSERT_OK(answer);
    EXPECT_TRUE(text_of(*answer) == text_of(message));
  }
  echo.join();
}

TEST_P(Connected, DeadlineThatPassesLeavesTheChannelUsable) {
  Channel client(std::move(client_));
  Channel server(std::move(server_));
  EXPECT_CODE(StatusCode::kTimeout, server.recv(Deadline::after(milliseconds(1))));
  // More than the buffers hold, and the peer does not read: the rest stays queued.
  const ByteBuffer large(size_t{12} << 20, std::byte{42});
  EXPECT_CODE(StatusCode::kTimeout, client.send(large, Deadline::after(milliseconds(20))));
  EXPECT_TRUE(client.wants_write());
  std::optional<ByteBuffer> message;
  const Deadline deadline = soon();
  while (!message.has_value() && !deadline.expired()) {
    ASSERT_OK(client.flush_some());
    auto got = server.try_recv();
    ASSERT_OK(got);
    message = std::move(*got);
  }
  EXPECT_TRUE(message == large);
  EXPECT_FALSE(client.wants_write());
}

TEST_P(Connected, PeerThatDiesInTheMiddleOfAMessageIsLost) {
  Channel server(std::move(server_));
  ByteBuffer frame;
  ASSERT_OK(FrameWriter(client_.keys.send).append(bytes_of("message"), frame));
  ASSERT_EQ(*client_.stream->write_some(ConstBytes(frame).first(9)), 9u);
  client_.stream.reset();
  EXPECT_CODE(StatusCode::kPeerLost, server.recv(soon()));
  EXPECT_CODE(StatusCode::kPeerLost, server.try_recv());
  EXPECT_CODE(StatusCode::kPeerLost, server.send(bytes_of("x"), soon()));
}

TEST(Tls, PeerWithAnotherKeyIsRefused) {
  const auto listener = listen_on(Endpoint::loopback());
  ASSERT_OK(listener);
  auto ends = connect_through(*listener);
  ASSERT_OK(ends);
  using Role = TlsStream::Role;
  const auto client = TlsStream::create(std::move(ends->first), Role::kClient, Secret::generate());
  const auto server = TlsStream::create(std::move(ends->second), Role::kServer, Secret::generate());
  Result<uint32_t> outcome = kReadable;
  const Deadline deadline = soon();
  while (outcome.is_ok() && *outcome != 0 && !deadline.expired()) {
    (void)(*client)->shake_hands();
    outcome = (*server)->shake_hands();
  }
  EXPECT_CODE(StatusCode::kUnauthenticated, outcome);
  EXPECT_THAT(outcome.status().message(), ::testing::StartsWith("TLS: "));
}

}  // namespace
}  // namespace hvd
