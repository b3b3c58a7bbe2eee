// SPDX-License-Identifier: Apache-2.0
#include "net/rendezvous.h"

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "net/acceptor.h"
#include "net/authenticate.h"
#include "net/resolver.h"
#include "net/socket.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Deadline soon() { return Deadline::after(seconds(20)); }

struct Variant {
  const char* name;
  Endpoint bind;
  bool tls;
};

// A server, and peers that do not belong to its job.
class RendezvousTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    RendezvousServerOptions options;
    options.bind = GetParam().bind;
    options.tls = GetParam().tls;
    options.handshake_timeout = timeout();
    auto server = RendezvousServer::start(secret_, options);
    if (!server.is_ok() && options.bind.family() == AF_INET6) {
      GTEST_SKIP() << "no IPv6 on this machine: " << server.status().message();
    }
    ASSERT_OK(server);
    server_ = std::move(*server);
    ::testing::internal::CaptureStderr();
    capturing_ = true;
  }
  void TearDown() override {
    if (capturing_) (void)log();
  }
  virtual milliseconds timeout() const { return milliseconds(5'000); }

  bool tls() const { return GetParam().tls; }
  std::unique_ptr<RendezvousClient> client() {
    auto connected = RendezvousClient::connect({&server_->endpoint(), 1}, secret_, tls(), soon());
    EXPECT_OK(connected);
    return std::move(*connected);
  }
  Fd unauthenticated_socket() { return connect_to(server_->endpoint(), soon()).value(); }
  AuthenticatedStream friendly() {
    auto stream = connect_stream(unauthenticated_socket(), secret_, {tls()}, soon());
    EXPECT_OK(stream);
    return std::move(*stream);
  }
  void say(const Fd& socket, ConstBytes bytes) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reads until the server closes the connection; it logs first.
  void await_close(int fd) {
    std::array<char, 256> buffer;
    ssize_t count = 1;
    while (count > 0) {
      ASSERT_OK(wait_for(fd, POLLIN, soon()));
      count = ::recv(fd, buffer.data(), buffer.size(), 0);
    }
  }
  // The server answers an honest client; it has handled earlier connections by then.
  void expect_still_serving() {
    const auto good = client();
    EXPECT_OK(good->set("alive", "yes"));
    EXPECT_EQ(text_of(*good->get("alive")), "yes");
  }
  std::string log() {
    capturing_ = false;
    return ::testing::internal::GetCapturedStderr();
  }

  const Secret secret_ = Secret::generate();
  std::unique_ptr<RendezvousServer> server_;
  bool capturing_ = false;
};

const auto kVariants = ::testing::Values(Variant{"IPv4", Endpoint::loopback(), false},
                                         Variant{"IPv6", Endpoint::loopback_v6(), false},
                                         Variant{"DualStackTls", Endpoint::any_v6(), true});
const auto kName = [](const auto& variant) { return std::string(variant.param.name); };
INSTANTIATE_TEST_SUITE_P(Variants, RendezvousTest, kVariants, kName);

TEST_P(RendezvousTest, EveryOperationWorksAndErrorsNameTheServer) {
  const auto rendezvous = client();
  ASSERT_OK(rendezvous->set("a/1", "one"));
  ASSERT_OK(rendezvous->set("a/2", "two"));
  ASSERT_OK(rendezvous->set("a/1", "uno"));
  EXPECT_EQ(text_of(*rendezvous->get("a/1")), "uno");
  EXPECT_THAT(*rendezvous->list("a/"), ElementsAre("a/1", "a/2"));
  EXPECT_EQ(text_of(*rendezvous->wait("a/2", soon())), "two");
  EXPECT_TRUE(*rendezvous->remove("a/2"));
  EXPECT_FALSE(*rendezvous->remove("a/2"));
  EXPECT_EQ(*rendezvous->add("count", 40), 40);
  EXPECT_EQ(*rendezvous->add("count", 2), 42);
  const auto none = rendezvous->get("a/2");
  EXPECT_CODE(StatusCode::kNotFound, none);
  EXPECT_THAT(none.status().message(),
              AllOf(HasSubstr(std::to_string(server_->endpoint().port())), HasSubstr("\"a/2\"")));
  const auto refused = rendezvous->set(std::string(2000, 'k'), "");
  EXPECT_CODE(StatusCode::kInvalidArgument, refused);
  EXPECT_OK(rendezvous->set("big", std::string(size_t{3} << 20, 'v')));
  EXPECT_EQ(rendezvous->get("big")->size(), size_t{3} << 20);
}

TEST(RendezvousPlaces, EveryAddressLeadsToTheSameServerAndAListToOneThatAnswers) {
  const Secret secret = Secret::generate();
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  options.more = {*Endpoint::parse("127.0.0.2:0"), *Endpoint::parse("127.0.0.3:0")};
  const auto server = RendezvousServer::start(secret, options);
  ASSERT_OK(server);
  ASSERT_EQ((*server)->endpoints().size(), 3U);
  for (const Endpoint& endpoint : (*server)->endpoints()) {
    const auto rendezvous = RendezvousClient::connect(endpoint.to_string(), secret, false, soon());
    ASSERT_OK(rendezvous);
    EXPECT_OK((*rendezvous)->add("seen", 1));
  }
  // No server listens at the first address.
  const std::string places = "127.0.0.9:1," + (*server)->endpoints()[2].to_string();
  const auto rendezvous = RendezvousClient::connect(places, secret, false, soon());
  ASSERT_OK(rendezvous);
  EXPECT_EQ(text_of(*(*rendezvous)->get("seen")), "3");
}

TEST_P(RendezvousTest, RanksGatherEachOthersRecordsWithOneWaitEach) {
  constexpr int kRanks = 8;
  std::vector<std::string> keys;
  for (int rank = 0; rank < kRanks; ++rank) keys.push_back("rank/" + std::to_string(rank));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto rendezvous = client();
      ASSERT_OK(rendezvous->set(keys[rank], "address of " + std::to_string(rank)));
      const auto records = rendezvous->wait_all(keys, soon());
      ASSERT_OK(records);
      for (int peer = 0; peer < kRanks; ++peer) {
        EXPECT_EQ(text_of((*records)[peer]), "address of " + std::to_string(peer));
      }
      // A barrier, and an action that only the last rank performs.
      if (*rendezvous->add("arrived", 1) == kRanks) ASSERT_OK(rendezvous->set("all", "here"));
      ASSERT_OK(rendezvous->wait("all", soon()));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_P(RendezvousTest, WaitThatTimesOutNamesTheMissingKeysAndTheClientLivesOn) {
  const auto rendezvous = client();
  ASSERT_OK(rendezvous->set("rank/0", "x"));
  const auto records =
      rendezvous->wait_all({"rank/0", "rank/1", "rank/2"}, Deadline::after(milliseconds(10)));
  EXPECT_CODE(StatusCode::kTimeout, records);
  EXPECT_THAT(records.status().message(), HasSubstr("2 of 3 keys: rank/1, rank/2"));
  ASSERT_OK(rendezvous->set("rank/1", "y"));  // the old wait is not answered any more
  EXPECT_EQ(text_of(*rendezvous->get("rank/1")), "y");
  // No keys to wait for: it succeeds although the deadline has passed.
  EXPECT_OK(rendezvous->wait("rank/0", Deadline::after(milliseconds(0))));
}

TEST_P(RendezvousTest, AWaitEndsWhenARankOfTheGroupIsGoneOrTheCallerWantsNoMore) {
  const auto rendezvous = client();
  ASSERT_OK(rendezvous->enter_group("job", 0));
  auto peer = client();
  ASSERT_OK(peer->enter_group("job", 7));
  const auto unwanted = rendezvous->wait_all({"never"}, soon(), [] { return aborted("enough"); });
  EXPECT_CODE(StatusCode::kAborted, unwanted);
  // A rank that left cleanly ends the waits for keys that it was expected to set.
  auto deserter = client();
  ASSERT_OK(deserter->enter_group("job", 5));
  ASSERT_OK(deserter->set("5", "done"));
  std::thread departure([&] { EXPECT_OK(deserter->leave_group()); });
  const auto go_on = [] { return Status::ok(); };
  const auto missed = rendezvous->wait_for({"5", "5/more"}, {5, 5}, soon(), go_on);
  departure.join();
  EXPECT_CODE(StatusCode::kPeerLost, missed);
  EXPECT_EQ(missed.status().lost_rank(), 5);
  EXPECT_THAT(missed.status().message(), HasSubstr("left the job"));
  EXPECT_CODE(StatusCode::kPeerLost, rendezvous->wait_for({"7", "5/more"}, {7, 5}, soon(), go_on));
  EXPECT_OK(rendezvous->wait_for({"5"}, {5}, soon(), go_on));  // it had set that key
  ASSERT_OK(deserter->enter_group("job", 5));                  // it enters again
  EXPECT_CODE(StatusCode::kTimeout,
              rendezvous->wait_for({"5/more"}, {5}, Deadline::after(milliseconds(1)), go_on));

  std::thread death([&] { peer.reset(); });
  const auto outcome = rendezvous->wait("never", soon());
  death.join();
  EXPECT_CODE(StatusCode::kPeerLost, outcome);
  EXPECT_EQ(outcome.status().lost_rank(), 7);
  EXPECT_EQ(rendezvous->report_loss(3, "later").lost_rank(), 7);
  // Another group starts without a loss.
  ASSERT_OK(rendezvous->enter_group("next", 0));
  EXPECT_CODE(StatusCode::kTimeout, rendezvous->wait("never", Deadline::after(milliseconds(1))));
}

TEST_P(RendezvousTest, ClientLearnsThatTheServerIsGone) {
  const auto rendezvous = client();
  std::thread stopper([&] { server_->stop(); });
  EXPECT_CODE(StatusCode::kPeerLost, rendezvous->wait("never", soon()));
  stopper.join();
  EXPECT_CODE(StatusCode::kPeerLost, rendezvous->set("a", "b"));
  const auto again = RendezvousClient::connect({&server_->endpoint(), 1}, secret_, tls(),
                                               Deadline::after(milliseconds(20)));
  EXPECT_CODE(StatusCode::kTimeout, again);
  EXPECT_THAT(again.status().message(), HasSubstr("Connection refused"));
}

TEST_P(RendezvousTest, AClientThatComesBeforeTheServerWaitsForIt) {
  RendezvousServerOptions options;
  options.bind = server_->endpoint();  // a port that is free once its server has stopped
  options.tls = tls();
  server_->stop();
  Result<std::unique_ptr<RendezvousClient>> early = not_found("not tried yet");
  std::thread connecting([&] {
    early = RendezvousClient::connect({&options.bind, 1}, secret_, tls(), soon());
  });
  std::this_thread::sleep_for(milliseconds(30));
  const auto late = RendezvousServer::start(secret_, options);
  connecting.join();
  ASSERT_OK(late);
  ASSERT_OK(early);
  EXPECT_OK((*early)->set("a", "b"));
}

// Listens at the address of a rendezvous server, closes the first connections, and serves the later
// ones.
class BadBeginner {
 public:
  explicit BadBeginner(const Secret& secret, int hang_ups)
      : listener_(listen_on(Endpoint::loopback()).value()),
        where_(*local_endpoint(listener_)),
        secret_(secret),
        hang_ups_(hang_ups),
        thread_([this] { run(); }) {}
  ~BadBeginner() {
    stop_ = true;
    poller_->wake();
    thread_.join();
  }
  const Endpoint& where() const { return where_; }

 private:
  // False ends the loop: after the destructor's wake, or at the time limit.
  bool wait(std::vector<PollEvent>& events) {
    return !stop_ && poller_->wait(events, limit_).is_ok() && !events.empty();
  }
  void run() {
    std::vector<PollEvent> events;
    (void)poller_->add(listener_.get(), kReadable, 1);
    for (int i = 0; i < hang_ups_; ++i) {
      if (!wait(events)) return;
      const Fd socket = accept_from(listener_).value();
      // Some before the hello has arrived, some after it.
      if (i % 2 == 1) (void)wait_for(socket.get(), POLLIN, limit_);
    }
    poller_->remove(listener_.get());
    bool accepted = false;
    const auto acceptor =
        Acceptor::create(std::move(listener_), secret_, {}, *poller_, uint64_t{1} << 32,
                         [&](const AuthenticatedStream&) { accepted = true; });
    while (!accepted && wait(events)) {
      for (const PollEvent& event : events) (*acceptor)->on_event(event);
    }
  }

  const Deadline limit_ = soon();
  Fd listener_;
  const Endpoint where_;
  const Secret secret_;
  const int hang_ups_;
  const std::unique_ptr<Poller> poller_ = Poller::create().value();
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(RendezvousClientConnect, AHangUpBeforeAuthenticationIsTriedAgain) {
  const Secret secret = Secret::generate();
  const BadBeginner server(secret, 5);
  EXPECT_OK(RendezvousClient::connect({&server.where(), 1}, secret, false, soon()));
}

TEST(RendezvousClientConnect, TheDeadlineReportsTheLastFailure) {
  const Secret secret = Secret::generate();
  const BadBeginner server(secret, 1'000'000);
  ::testing::internal::CaptureStderr();
  const auto client = RendezvousClient::connect({&server.where(), 1}, secret, false,
                                                Deadline::after(milliseconds(50)));
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_CODE(StatusCode::kTimeout, client);
  EXPECT_THAT(client.status().message(),
              AllOf(HasSubstr("rendezvous server: "), HasSubstr(server.where().to_string()),
                    HasSubstr("hung up before it authenticated itself")));
}

TEST(RendezvousClientConnect, ANameThatIsNotKnownYetIsTriedAgain) {
  const Secret secret = Secret::generate();
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  const auto server = RendezvousServer::start(secret, options);
  ASSERT_OK(server);
  std::atomic<int> asked{0};
  Resolver resolver([&](const std::string& host) -> Result<std::vector<Endpoint>> {
    if (++asked <= 3) return not_found("host \"" + host + "\": not yet");
    return std::vector<Endpoint>{Endpoint::loopback()};
  });
  const std::string place = "rendezvous.test:" + std::to_string((*server)->endpoint().port());
  EXPECT_OK(RendezvousClient::connect(place, secret, false, soon(), resolver));
  EXPECT_EQ(asked, 4);
  // A place whose name is unknown does not prevent a connection to another one.
  asked = -1'000'000;
  EXPECT_OK(RendezvousClient::connect(place + "," + (*server)->endpoint().to_string(), secret,
                                      false, soon(), resolver));

  const auto never =
      RendezvousClient::connect(place, secret, false, Deadline::after(milliseconds(20)), resolver);
  EXPECT_CODE(StatusCode::kTimeout, never);
  EXPECT_THAT(never.status().message(), HasSubstr("host \"rendezvous.test\": "));
  // A text that can never be an address is not tried again.
  EXPECT_CODE(StatusCode::kInvalidArgument,
              RendezvousClient::connect("rendezvous.test", secret, false, soon(), resolver));
}

TEST_P(RendezvousTest, OtherSecretIsRefusedOnBothSides) {
  const auto other =
      RendezvousClient::connect({&server_->endpoint(), 1}, Secret::generate(), tls(), soon());
  EXPECT_CODE(StatusCode::kUnauthenticated, other);
  EXPECT_THAT(other.status().message(), HasSubstr("does not have our job secret"));
  expect_still_serving();
  EXPECT_THAT(log(), HasSubstr("job secret"));
}

TEST_P(RendezvousTest, OtherTlsSettingIsNamedOnBothSides) {
  const auto other = RendezvousClient::connect({&server_->endpoint(), 1}, secret_, !tls(), soon());
  EXPECT_CODE(StatusCode::kPrecondition, other);
  EXPECT_THAT(other.status().message(), HasSubstr("HOROVOD_TLS"));
  expect_still_serving();
  EXPECT_THAT(log(), AllOf(HasSubstr("HOROVOD_TLS=0"), HasSubstr("HOROVOD_TLS=1")));
}

TEST_P(RendezvousTest, GarbageIsRefused) {
  const Fd socket = unauthenticated_socket();
  say(socket, bytes_of("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  await_close(socket.get());
  expect_still_serving();
  EXPECT_THAT(log(), AllOf(HasSubstr("rendezvous server: refused"),
                           HasSubstr(local_endpoint(socket)->host()),
                           HasSubstr("does not speak this protocol")));
}

TEST_P(RendezvousTest, HandshakeThatStopsHalfWayIsRefused) {
  Fd socket = unauthenticated_socket();
  say(socket, bytes_of("hvdP\1"));
  socket.reset();
  expect_still_serving();
  EXPECT_THAT(log(), HasSubstr("hung up before it authenticated itself"));
}

TEST_P(RendezvousTest, PeerThatClosesWithoutSendingIsNotLogged) {
  unauthenticated_socket().reset();
  expect_still_serving();
  const Fd socket = unauthenticated_socket();
  say(socket, bytes_of("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  await_close(socket.get());
  EXPECT_THAT(log(), AllOf(HasSubstr("does not speak"), Not(HasSubstr("hung up"))));
}

TEST_P(RendezvousTest, OversizedFrameOfAnAuthenticatedPeerIsRefused) {
  const auto peer = friendly();
  ASSERT_EQ(*peer.stream->write_some(bytes_of("\xff\xff\xff\xff....")), 8u);
  await_close(peer.stream->fd());
  expect_still_serving();
  EXPECT_THAT(log(), HasSubstr("a frame announces 4294967295 bytes, the limit is 16777216"));
}

TEST_P(RendezvousTest, FrameWithoutTheRightTagIsRefused) {
  const auto peer = friendly();
  ASSERT_EQ(*peer.stream->write_some(bytes_of(std::string_view("\1\0\0\0x", 5))), 5u);
  ASSERT_EQ(*peer.stream->write_some(bytes_of("sixteen bytes tag")), 17u);
  await_close(peer.stream->fd());
  expect_still_serving();
  EXPECT_THAT(log(), HasSubstr("wrong tag"));
}

TEST_P(RendezvousTest, RequestThatMakesNoSenseIsRefused) {
  Channel peer(friendly());
  ASSERT_OK(peer.send(bytes_of("what?"), soon()));
  await_close(peer.fd());
  expect_still_serving();
  EXPECT_THAT(log(), HasSubstr("malformed record"));
}

TEST_P(RendezvousTest, TruncatedFrameOfAPeerThatDiesDisturbsNoOtherClient) {
  auto peer = friendly();
  ASSERT_EQ(*peer.stream->write_some(bytes_of(std::string_view("\77\0\0\0half", 8))), 8u);
  peer.stream.reset();
  expect_still_serving();
}

size_t open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

TEST_P(RendezvousTest, ThousandIdleConnectionsAreBoundedAndAGoodClientStillGetsIn) {
  constexpr size_t kIdle = 1000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 4096));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < 2 * kIdle) GTEST_SKIP() << "ulimit -n is only " << limit.rlim_cur;
  const auto early = client();
  const size_t before = open_descriptors();
  std::vector<Fd> idle;
  for (size_t i = 0; i < kIdle; ++i) idle.push_back(unauthenticated_socket());
  expect_still_serving();
  EXPECT_OK(early->set("a", "b"));
  EXPECT_LE(open_descriptors(), before + kIdle + 256 + 1);
  server_->stop();
  EXPECT_THAT(log(), HasSubstr("more than 256 connections have not authenticated"));
}

class RendezvousWithShortTimeout : public RendezvousTest {
 protected:
  milliseconds timeout() const override { return milliseconds(50); }
};
INSTANTIATE_TEST_SUITE_P(Variants, RendezvousWithShortTimeout, kVariants, kName);

TEST_P(RendezvousWithShortTimeout, SilentPeerIsClosedAtItsDeadline) {
  const Fd silent = unauthenticated_socket();
  await_close(silent.get());
  EXPECT_THAT(log(), HasSubstr("did not authenticate itself in time"));
}

}  // namespace
}  // namespace hvd
