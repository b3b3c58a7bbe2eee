// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "net/codec.h"
#include "net/poller.h"
#include "net/stream.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(seconds(10)); }

// A port that was free a moment ago and on which no process listens.
Endpoint dead_port() {
  const auto listener = listen_on(Endpoint::loopback());
  return *local_endpoint(*listener);
}

class Sockets : public ::testing::TestWithParam<Endpoint> {
 protected:
  void SetUp() override {
    auto made = listen_on(GetParam());
    if (!made.is_ok() && GetParam().family() == AF_INET6) {
      GTEST_SKIP() << "no IPv6 on this machine: " << made.status().message();
    }
    ASSERT_OK(made);
    listener_ = std::move(made).value();
  }
  Fd listener_;
};

INSTANTIATE_TEST_SUITE_P(Families, Sockets,
                         ::testing::Values(Endpoint::loopback(), Endpoint::loopback_v6()),
                         [](const auto& variant) {
                           return variant.param.family() == AF_INET ? "IPv4" : "IPv6";
                         });

TEST_P(Sockets, ConnectedPeersSeeEachOtherAndExchangeBytes) {
  EXPECT_FALSE(accept_from(listener_)->valid());  // no connection yet, and it does not block
  const Endpoint where = *local_endpoint(listener_);
  EXPECT_NE(where.port(), 0);
  auto client = connect_to(where, soon());
  ASSERT_OK(client);
  ASSERT_OK(wait_for(listener_.get(), POLLIN, soon()));
  auto server = accept_from(listener_);
  ASSERT_OK(server);
  ASSERT_TRUE(server->valid());
  EXPECT_EQ(*peer_endpoint(*server), *local_endpoint(*client));
  EXPECT_EQ(*peer_endpoint(*client), where);
  for (const Fd* socket : {&*client, &*server}) {
    int no_delay = 0;
    socklen_t length = sizeof(no_delay);
    ASSERT_EQ(getsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &length), 0);
    EXPECT_NE(no_delay, 0);
    char algorithm[16] = "";
    length = sizeof(algorithm);
    ASSERT_EQ(getsockopt(socket->get(), IPPROTO_TCP, TCP_CONGESTION, algorithm, &length), 0);
    EXPECT_THAT(algorithm, ::testing::AnyOf(std::string("cubic"), std::string("reno")));
  }

  const auto a = make_socket_stream(std::move(*client));
  auto b = make_socket_stream(std::move(*server));
  std::array<std::byte, 16> in;
  EXPECT_EQ(*b->read_some(in), 0u);
  const std::array<ConstBytes, 3> pieces{bytes_of("he"), bytes_of(""), bytes_of("llo")};
  EXPECT_EQ(*a->write_gather(pieces), 5u);
  ASSERT_OK(wait_for(b->fd(), POLLIN, soon()));
  const auto count = b->read_some(in);
  ASSERT_OK(count);
  EXPECT_EQ(text_of(ConstBytes(in).first(*count)), "hello");

  b.reset();
  ASSERT_OK(wait_for(a->fd(), POLLIN, soon()));
  const auto lost = a->read_some(in);
  EXPECT_CODE(StatusCode::kPeerLost, lost);
  EXPECT_EQ(lost.status().lost_rank(), -1);
}

TEST_P(Sockets, WriterLearnsThatThePeerIsGoneWithoutASignal) {
  auto client = connect_to(*local_endpoint(listener_), soon());
  ASSERT_OK(client);
  ASSERT_OK(wait_for(listener_.get(), POLLIN, soon()));
  accept_from(listener_)->reset();
  const auto stream = make_socket_stream(std::move(*client));
  const std::vector<std::byte> data(1 << 16);
  Result<size_t> outcome = size_t{1};
  while (outcome.is_ok() && *outcome > 0) outcome = stream->write_some(data);
  EXPECT_CODE(StatusCode::kPeerLost, outcome);
}

TEST(Socket, AnyAddressOfIPv6ServesIPv4Too) {
  const auto listener = listen_on(Endpoint::any_v6());
  if (!listener.is_ok()) GTEST_SKIP() << "no IPv6: " << listener.status().message();
  auto client = connect_to(Endpoint::loopback(local_endpoint(*listener)->port()), soon());
  ASSERT_OK(client);
  ASSERT_OK(wait_for(listener->get(), POLLIN, soon()));
  const auto server = accept_from(*listener);
  ASSERT_OK(server);
  EXPECT_EQ(*peer_endpoint(*server), *local_endpoint(*client));  // shown as IPv4
}

TEST(Socket, APeerOnAUnixSocketIsNamedByItsProcessAndUser) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd here(ends[0]);
  const Fd there(ends[1]);
  EXPECT_EQ(peer_name(here.get(), *peer_endpoint(here)),
            "process " + std::to_string(getpid()) + " of user " + std::to_string(getuid()));
  const auto listener = listen_on(Endpoint::loopback());
  ASSERT_OK(listener);
  const auto client = connect_to(*local_endpoint(*listener), soon());
  ASSERT_OK(client);
  EXPECT_EQ(peer_name(client->get(), *peer_endpoint(*client)),
            local_endpoint(*listener)->to_string());
}

TEST(Socket, ListeningTwiceOnOnePortFailsWithTheAddress) {
  const auto listener = listen_on(Endpoint::loopback());
  ASSERT_OK(listener);
  const auto second = listen_on(*local_endpoint(*listener));
  EXPECT_CODE(StatusCode::kIo, second);
  EXPECT_THAT(second.status().message(), HasSubstr(local_endpoint(*listener)->to_string()));
}

TEST(ConnectAny, FirstAddressThatAnswersWins) {
  const auto listener = listen_on(Endpoint::loopback());
  ASSERT_OK(listener);
  const Endpoint alive = *local_endpoint(*listener);
  const std::vector<Endpoint> where{dead_port(), Endpoint::loopback_v6(1), alive};
  const auto client = connect_any(where, soon());
  ASSERT_OK(client);
  EXPECT_EQ(*peer_endpoint(*client), alive);
}

TEST(ConnectAny, ErrorNamesEachAddressAndReason) {
  const std::vector<Endpoint> where{dead_port(), dead_port()};
  const auto client = connect_any(where, soon());
  EXPECT_CODE(StatusCode::kUnavailable, client);
  for (const Endpoint& endpoint : where) {
    EXPECT_THAT(client.status().message(),
                HasSubstr(endpoint.to_string() + ": connect: Connection refused"));
  }
  EXPECT_CODE(StatusCode::kInvalidArgument, connect_any({}, soon()));
}

TEST(ConnectTo, GivesUpAtTheDeadline) {
  // Once the queue of a listener is full, the kernel drops further requests to connect.
  const auto listener = listen_on(Endpoint::loopback(), 0);
  ASSERT_OK(listener);
  const Endpoint where = *local_endpoint(*listener);
  std::vector<Fd> queued;
  Status outcome;
  while (outcome.is_ok() && queued.size() < 8) {
    auto client = connect_to(where, Deadline::after(milliseconds(50)));
    outcome = client.status();
    if (client.is_ok()) queued.push_back(std::move(*client));
  }
  EXPECT_CODE(StatusCode::kTimeout, outcome);
  EXPECT_THAT(outcome.message(), HasSubstr(where.to_string()));
}

TEST(Poller, ReportsWhatIsReadyUnderItsToken) {
  auto poller = Poller::create();
  ASSERT_OK(poller);
  const auto listener = listen_on(Endpoint::loopback());
  ASSERT_OK(listener);
  ASSERT_OK((*poller)->add(listener->get(), kReadable, 7));
  std::vector<PollEvent> events;
  ASSERT_OK((*poller)->wait(events, Deadline::after(milliseconds(1))));
  EXPECT_TRUE(events.empty());

  auto client = connect_to(*local_endpoint(*listener), soon());
  ASSERT_OK(client);
  ASSERT_OK((*poller)->wait(events, soon()));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token, 7u);
  EXPECT_EQ(events[0].events, kReadable);

  (*poller)->remove(listener->get());
  ASSERT_OK((*poller)->add(client->get(), kReadable, 8));
  ASSERT_OK((*poller)->modify(client->get(), kReadable | kWritable, 9));
  ASSERT_OK((*poller)->wait(events, soon()));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token, 9u);
  EXPECT_EQ(events[0].events, kWritable);
}

TEST(Poller, WakesFromAnotherThreadAndRemembersAnEarlyWake) {
  auto poller = Poller::create();
  ASSERT_OK(poller);
  std::vector<PollEvent> events;
  (*poller)->wake();
  ASSERT_OK((*poller)->wait(events, Deadline::never()));
  std::thread waker([&] { (*poller)->wake(); });
  ASSERT_OK((*poller)->wait(events, Deadline::never()));
  waker.join();
  EXPECT_TRUE(events.empty());
  ASSERT_OK((*poller)->wait(events, Deadline::after(milliseconds(1))));  // once is enough
}

}  // namespace
}  // namespace hvd
