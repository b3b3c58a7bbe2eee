// SPDX-License-Identifier: Apache-2.0
// Joining, bad peers, leaving and death. conformance_test.cc, which also runs over fabrics, tests
// that bytes arrive correctly.
#include "transport/fabric.h"

#include <poll.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "net/authenticate.h"
#include "net/frame.h"
#include "net/socket.h"
#include "testing/assertions.h"
#include "transport/tcp/local_socket.h"
#include "transport/tcp/peer_acceptor.h"
#include "transport/tcp/peer_directory.h"
#include "transport/testing/rank_process.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::RankProcess;

Deadline soon() { return Deadline::after(20s); }

std::unique_ptr<RendezvousServer> start_rendezvous(const Secret& secret, bool tls = false) {
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  options.tls = tls;
  auto rendezvous = RendezvousServer::start(secret, options);
  HVD_CHECK(rendezvous.is_ok());
  return std::move(rendezvous).value();
}

// Ranks as threads; `change` modifies the options of each rank.
class Job {
 public:
  explicit Job(int size, bool tls = false) : size_(size), tls_(tls) {
    rendezvous_ = start_rendezvous(secret_, tls);
  }

  std::vector<Status> run(const std::function<void(FabricOptions&)>& change,
                          const std::function<Status(Fabric&)>& body) {
    std::vector<Status> outcomes(size_);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.push_back(start_thread("rank " + std::to_string(rank),
                                     [&, rank] { outcomes[rank] = run_rank(rank, change, body); }));
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  const Secret& secret() const { return secret_; }
  RendezvousServer& rendezvous() { return *rendezvous_; }

 private:
  Status run_rank(int rank, const std::function<void(FabricOptions&)>& change,
                  const std::function<Status(Fabric&)>& body) {
    HVD_TRY_ASSIGN(const auto client, RendezvousClient::connect(rendezvous_->endpoint().to_string(),
                                                                secret_, tls_, soon()));
    FabricOptions options;
    options.rank = rank;
    options.size = size_;
    options.interfaces = {"lo"};
    options.tls = tls_;
    change(options);
    HVD_TRY_ASSIGN(const auto fabric, Fabric::join(options, secret_, client.get(), soon()));
    return body(*fabric);
  }

  const Secret secret_ = Secret::generate();
  const int size_;
  const bool tls_;
  std::unique_ptr<RendezvousServer> rendezvous_;
};

void own_host(FabricOptions& options) { options.host_name = "host" + std::to_string(options.rank); }
void one_host(FabricOptions&) {}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Sends `bytes` around the ring; twice, so that no rank leaves before its neighbour is done.
Status round_trip(Transport& transport, size_t bytes) {
  const int n = transport.size();
  for (int i = 0; i < 2; ++i) {
    std::vector<std::byte> out(bytes, static_cast<std::byte>(transport.rank() + i));
    std::vector<std::byte> in(bytes);
    HVD_TRY(transport.exchange((transport.rank() + 1) % n, out, (transport.rank() + n - 1) % n, in,
                               soon()));
    const auto expected = static_cast<std::byte>((transport.rank() + n - 1) % n + i);
    if (in != std::vector<std::byte>(bytes, expected)) return internal_error("wrong bytes");
  }
  return Status::ok();
}

void expect_all_ok(const std::vector<Status>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank].is_ok()) << "rank " << rank << ": " << outcomes[rank].to_string();
  }
}

TEST(Fabric, AJobOfOneRankNeedsNoRendezvousServerAndNoNetwork) {
  auto fabric = Fabric::join({}, Secret::generate(), nullptr, soon());
  ASSERT_OK(fabric);
  EXPECT_TRUE((*fabric)->listening_on().empty());
  auto transport = (*fabric)->make_mesh(0, {0}, soon());
  ASSERT_OK(transport);
  EXPECT_OK((*transport)->flush(soon()));
  EXPECT_CODE(StatusCode::kInvalidArgument,
              Fabric::join({.rank = 2, .size = 2}, Secret::generate(), nullptr, soon()));
}

TEST(Fabric, RanksOfOneHostShareMemoryAndListenNowhere) {
  expect_all_ok(Job(3).run(one_host, [](Fabric& fabric) -> Status {
    EXPECT_TRUE(fabric.listening_on().empty());
    EXPECT_EQ(fabric.topology().hosts(), 1);
    HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(3), soon()));
    EXPECT_NE(transport->arena(), nullptr);
    return round_trip(*transport, 1 << 20);
  }));
}

TEST(Fabric, WithoutSharedMemoryRanksOfOneHostUseSocketsButStillNoPort) {
  const auto no_memory = [](FabricOptions& options) { options.shared_memory = false; };
  expect_all_ok(Job(3).run(no_memory, [](Fabric& fabric) -> Status {
    EXPECT_TRUE(fabric.listening_on().empty());
    HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(3), soon()));
    EXPECT_EQ(transport->arena(), nullptr);
    return round_trip(*transport, 1 << 20);
  }));
}

TEST(Fabric, TlsCoversTheRendezvousTheWatchAndTheData) {
  const auto two_hosts = [](FabricOptions& options) {
    options.host_name = options.rank < 2 ? "a" : "b";
    options.shared_memory = false;
  };
  expect_all_ok(Job(4, /*tls=*/true).run(two_hosts, [](Fabric& fabric) -> Status {
    HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(4), soon()));
    for (const size_t bytes : {1, 1000, 3'000'000}) HVD_TRY(round_trip(*transport, bytes));
    return Status::ok();
  }));
}

TEST(Fabric, AnotherWireProtectionOnOneRankIsNamedOnEveryRank) {
  const auto outcomes = Job(3).run(
      [](FabricOptions& options) {
        own_host(options);
        options.tags = options.rank != 1;
      },
      [](Fabric&) { return Status::ok(); });
  for (const Status& outcome : outcomes) {
    EXPECT_FALSE(outcome.is_ok());
    EXPECT_THAT(outcome.message(), ::testing::HasSubstr("HOROVOD_WIRE_PROTECTION=tags"));
    EXPECT_THAT(outcome.message(), ::testing::HasSubstr("HOROVOD_WIRE_PROTECTION=none"));
    EXPECT_THAT(outcome.message(), ::testing::HasSubstr("rank 1"));
  }
}

TEST(Fabric, TagsCoverTheDataBetweenHostsAlone) {
  for (const bool tags : {false, true}) {
    const auto two_hosts = [tags](FabricOptions& options) {
      options.host_name = options.rank < 2 ? "a" : "b";
      options.shared_memory = false;
      options.tags = tags;
    };
    expect_all_ok(Job(4).run(two_hosts, [](Fabric& fabric) -> Status {
      HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(4), soon()));
      for (const size_t bytes : {1, 1000, 3'000'000}) HVD_TRY(round_trip(*transport, bytes));
      return Status::ok();
    }));
  }
}

TEST(Fabric, CommunicatorsOfSomeRanksInAnyOrderDoNotMixTheirBytes) {
  expect_all_ok(Job(4).run(own_host, [](Fabric& fabric) -> Status {
    HVD_TRY_ASSIGN(const auto all, fabric.make_mesh(1, all_ranks(4), soon()));
    const bool odd = fabric.rank() % 2 == 1;
    const std::vector<int> half = odd ? std::vector<int>{3, 1} : std::vector<int>{0, 2};
    HVD_TRY_ASSIGN(const auto some, fabric.make_mesh(odd ? 3 : 2, half, soon()));
    EXPECT_EQ(half[some->rank()], fabric.rank());
    // Unread bytes of one communicator do not block the other.
    const std::vector<std::byte> stuck(8 << 20);
    HVD_TRY(all->send((fabric.rank() + 2) % 4, stuck, soon()));
    HVD_TRY(round_trip(*some, 100'000));
    std::vector<std::byte> in(stuck.size());
    HVD_TRY(all->recv((fabric.rank() + 2) % 4, in, soon()));
    HVD_TRY(all->flush(soon()));
    return round_trip(*all, 4);
  }));
}

TEST(Fabric, ARankThatLeavesCleanlyFailsOnlyTheRanksThatNeedIt) {
  for (const auto& hosts : {own_host, one_host}) {
    expect_all_ok(Job(3).run(hosts, [](Fabric& fabric) -> Status {
      HVD_TRY_ASSIGN(auto transport, fabric.make_mesh(0, all_ranks(3), soon()));
      HVD_TRY(round_trip(*transport, 1000));
      if (fabric.rank() == 0) {
        transport.reset();
        fabric.leave();
        return Status::ok();
      }
      // Long enough for the other ranks to notice it.
      std::this_thread::sleep_for(50ms);
      const int other = 3 - fabric.rank();
      for (int i = 0; i < 100; ++i) {
        std::byte out{1};
        std::byte in{};
        HVD_TRY(transport->exchange(other, {&out, 1}, other, {&in, 1}, soon()));
      }
      return fabric.health().status();
    }));
  }
}

TEST(Fabric, AWaitForARankThatLeftFailsAndNamesIt) {
  for (const auto& hosts : {own_host, one_host}) {
    const auto outcomes = Job(2).run(hosts, [](Fabric& fabric) -> Status {
      HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(2), soon()));
      HVD_TRY(round_trip(*transport, 1000));
      if (fabric.rank() == 0) return Status::ok();
      std::byte byte{};
      return transport->recv(0, {&byte, 1}, soon());
    });
    EXPECT_OK(outcomes[0]);
    EXPECT_CODE(StatusCode::kPeerLost, outcomes[1]);
    EXPECT_EQ(outcomes[1].lost_rank(), 0);
  }
}

TEST(Fabric, AMeshWithARankThatHasLeftFailsAtOnceAndNamesIt) {
  const auto two_hosts = [](FabricOptions& options) {
    options.host_name = options.rank < 2 ? "a" : "b";
  };
  const std::function<void(FabricOptions&)> placements[] = {one_host, two_hosts};
  for (const auto& placement : placements) {
    const auto start = Deadline::Clock::now();
    const auto outcomes = Job(3).run(placement, [](Fabric& fabric) -> Status {
      if (fabric.rank() == 1) return Status::ok();
      return fabric.make_mesh(0, all_ranks(3), soon()).status();
    });
    EXPECT_LT(Deadline::Clock::now() - start, 10s);
    for (const int rank : {0, 2}) {
      EXPECT_CODE(StatusCode::kPeerLost, outcomes[rank]);
      EXPECT_EQ(outcomes[rank].lost_rank(), 1);
      EXPECT_THAT(outcomes[rank].message(), ::testing::HasSubstr("left the job"));
    }
  }
}

// Waits as an engine does until `wanted` messages have arrived or the control plane fails.
Status receive_some(ControlPlane& control, int wanted) {
  while (wanted > 0) {
    control.doorbell().listen(Doorbell::Listener::kEngineThread);
    control.arm();
    HVD_TRY_ASSIGN(const int count, control.receive([](int, ConstBytes) { return Status::ok(); }));
    wanted -= count;
    if (count == 0) control.doorbell().sleep(Doorbell::Listener::kEngineThread, 5ms);
    HVD_TRY(control.check());
  }
  return Status::ok();
}

TEST(Fabric, ControlMessagesArriveOnAnyHostAndALeavingRankIsLostAfterItsLastMessage) {
  const auto no_memory = [](FabricOptions& options) { options.shared_memory = false; };
  const std::function<void(FabricOptions&)> placements[] = {own_host, one_host, no_memory};
  for (const bool tls : {false, true}) {
    for (const auto& placement : placements) {
      const auto outcomes = Job(2, tls).run(placement, [](Fabric& fabric) -> Status {
        HVD_TRY_ASSIGN(auto transport, fabric.make_mesh(7, all_ranks(2), soon()));
        HVD_TRY_ASSIGN(auto control, fabric.make_control(7, *transport, soon()));
        HVD_TRY(round_trip(*transport, 1000));
        const ByteBuffer long_one(100'000);
        HVD_TRY(control->send(1 - fabric.rank(), long_one, Urgency::kUsual));
        HVD_TRY(control->send(1 - fabric.rank(), {}, Urgency::kUsual));
        HVD_TRY(receive_some(*control, 2));
        if (fabric.rank() == 0) return receive_some(*control, 2);
        HVD_TRY(control->send(0, {}, Urgency::kUsual));  // its last message
        control.reset();
        std::byte byte{};
        (void)transport->recv(0, {&byte, 1}, soon());  // until rank 0 is done too
        return Status::ok();
      });
      EXPECT_CODE(StatusCode::kPeerLost, outcomes[0]);
      EXPECT_EQ(outcomes[0].lost_rank(), 1);
      EXPECT_THAT(outcomes[0].message(), ::testing::HasSubstr("left the job"));
    }
  }
}

// Malformed and unauthenticated input to a listener of rank 1.
void pester(const Endpoint& where, const Secret& secret) {
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) {
    auto socket = connect_to(where, soon());
    ASSERT_OK(socket);
    silent.push_back(std::move(*socket));
  }
  auto garbage = connect_to(where, soon());
  ASSERT_OK(garbage);
  const std::string text = "GET / HTTP/1.1\r\n\r\n" + std::string(1000, 'x');
  ASSERT_GT(::send(garbage->get(), text.data(), text.size(), MSG_NOSIGNAL), 0);

  auto wrong = connect_to(where, soon());
  ASSERT_OK(wrong);
  EXPECT_CODE(StatusCode::kUnauthenticated,
              connect_stream(std::move(*wrong), Secret::generate(), {}, soon()));

  const auto knock = [&] {
    auto socket = connect_to(where, soon());
    HVD_CHECK(socket.is_ok());
    auto stream = connect_stream(std::move(*socket), secret, {}, soon());
    HVD_CHECK(stream.is_ok());
    return std::move(*stream);
  };
  // The peer must close the connection.
  const auto expect_refused = [](AuthenticatedStream stream) {
    Channel channel(std::move(stream));
    EXPECT_CODE(StatusCode::kPeerLost, channel.recv(soon()));
  };
  using Purpose = Hello::Purpose;
  for (const Hello& hello : {
           Hello{"job", Purpose::kWatch, 0, 1, 0},  // is connected already
           Hello{"job", Purpose::kWatch, 2, 1, 0},  // no such rank
           Hello{"job", Purpose::kData, -1, 1, 7},  //
           Hello{"job", Purpose::kData, 0, 0, 7},   // greets itself
           Hello{"old", Purpose::kData, 0, 1, 7},   // another round
           Hello{"job", static_cast<Purpose>(9), 0, 1, 7},
       }) {
    auto stream = knock();
    ASSERT_OK(send_hello(stream, hello, soon()));
    expect_refused(std::move(stream));
  }
  auto first = knock();
  ASSERT_OK(send_hello(first, {"job", Purpose::kData, 0, 1, 99}, soon()));
  auto second = knock();
  ASSERT_OK(send_hello(second, {"job", Purpose::kData, 0, 1, 99}, soon()));
  expect_refused(std::move(second));

  auto large = knock();
  ByteBuffer frame;
  const ByteBuffer much(kHelloLimit + 1);
  ASSERT_OK(FrameWriter(large.keys.send).append(much, frame));
  ASSERT_EQ(*large.stream->write_some(frame), frame.size());
  expect_refused(std::move(large));
}

TEST(Fabric, BadPeersAreRefusedAndTheJobContinues) {
  Job job(2);
  const auto hosts = [](FabricOptions& options) {
    own_host(options);
    options.round = "job";
  };
  expect_all_ok(job.run(hosts, [&](Fabric& fabric) -> Status {
    HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, all_ranks(2), soon()));
    HVD_TRY(round_trip(*transport, 1000));
    if (fabric.rank() == 1) {
      HVD_TRY_ASSIGN(const Endpoint where, Endpoint::parse(fabric.listening_on().front()));
      pester(where, job.secret());
    }
    HVD_TRY(round_trip(*transport, 1'000'000));
    return fabric.health().status();
  }));
}

TEST(Fabric, AHangUpBeforeAuthenticationIsTriedAgainUntilThePeerRefuses) {
  Job job(1);
  const auto connect_client = [&] {
    return RendezvousClient::connect(job.rendezvous().endpoint().to_string(), job.secret(), false,
                                     soon());
  };
  // Rank 1 is only a listener, which closes three connections and then itself.
  auto listener = listen_local();
  ASSERT_OK(listener);
  auto record = describe_this_process("localhost");
  ASSERT_OK(record);
  record->local_name = listener->name;
  record->tags = true;
  const auto fake = connect_client();
  ASSERT_OK(fake);
  ASSERT_OK((*fake)->enter_group("0", 1));
  ASSERT_OK((*fake)->set("0/rank/1", encode(*record)));
  int closed = 0;
  std::thread peer([&] {
    for (; closed < 3 && wait_for(listener->socket.get(), POLLIN, soon()).is_ok(); ++closed) {
      (void)accept_from(listener->socket);
    }
    listener->socket.reset();
  });
  const auto client = connect_client();
  ASSERT_OK(client);
  const auto joined = Fabric::join({.rank = 0, .size = 2, .interfaces = {"lo"}}, job.secret(),
                                   client->get(), soon());
  peer.join();
  EXPECT_EQ(closed, 3);
  EXPECT_CODE(StatusCode::kPeerLost, joined);
  EXPECT_EQ(joined.status().lost_rank(), 1);
  EXPECT_THAT(joined.status().message(), ::testing::HasSubstr("Connection refused"));
}

TEST(Fabric, ARankThatNeverComesIsNamed) {
  Job job(1);
  auto client = RendezvousClient::connect(job.rendezvous().endpoint().to_string(), job.secret(),
                                          false, soon());
  ASSERT_OK(client);
  const auto joined = Fabric::join({.rank = 0, .size = 2, .interfaces = {"lo"}}, job.secret(),
                                   client->get(), Deadline::after(50ms));
  EXPECT_CODE(StatusCode::kTimeout, joined);
  EXPECT_THAT(joined.status().message(), ::testing::HasSubstr("rank/1"));
}

TEST(Fabric, ARankThatNeverComesIsNamedToTheOthersByTheFirstThatGivesUp) {
  Job job(1);
  const auto join = [&](int rank, Deadline deadline) {
    const auto client = RendezvousClient::connect(job.rendezvous().endpoint().to_string(),
                                                  job.secret(), false, soon());
    HVD_CHECK(client.is_ok());
    return Fabric::join({.rank = rank, .size = 3, .interfaces = {"lo"}}, job.secret(),
                        client->get(), deadline)
        .status();
  };
  Status patient;
  std::thread rank_2([&] { patient = join(2, soon()); });
  EXPECT_CODE(StatusCode::kTimeout, join(0, Deadline::after(300ms)));
  rank_2.join();
  EXPECT_CODE(StatusCode::kPeerLost, patient);
  EXPECT_EQ(patient.lost_rank(), 1);
  EXPECT_THAT(patient.message(), ::testing::HasSubstr("had not come when rank 0 gave up"));
}

TEST(Fabric, TheRendezvousServerStaysUntilALateRankHasReceivedTheLoss) {
  Job job(1);
  const auto connect_client = [&] {
    return RendezvousClient::connect(job.rendezvous().endpoint().to_string(), job.secret(), false,
                                     soon())
        .value();
  };
  const auto join = [&](int rank) {
    const auto client = connect_client();
    return Fabric::join({.rank = rank, .size = 3, .interfaces = {"lo"}, .linger = 20s},
                        job.secret(), client.get(), soon())
        .status();
  };
  auto rank_1 = connect_client();
  ASSERT_OK(rank_1->enter_group("0", 1));
  rank_1.reset();  // its process has died
  std::atomic<bool> gave_up{false};
  Status early;
  Status others_informed;
  std::thread rank_0([&] {
    early = join(0);
    gave_up = true;
    others_informed = connect_client()->get("0/told/2").status();
  });
  // Rank 0 has received the loss and still runs. Without a late rank it would have ended by now.
  ASSERT_OK(connect_client()->wait("0/told/0", soon()));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(gave_up);
  const Status late = join(2);
  rank_0.join();
  EXPECT_OK(others_informed);
  for (const Status& each : {early, late}) {
    EXPECT_CODE(StatusCode::kPeerLost, each);
    EXPECT_EQ(each.lost_rank(), 1);
  }
}

// ---- Processes.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // far too slow for a time limit
#else
constexpr bool kSanitized = false;
#endif

// One process per task and host name. The death of the victim must reach all other ranks in time.
class Processes {
 public:
  struct Rank {
    std::string task;
    std::string host;
  };

  explicit Processes(const std::vector<Rank>& ranks) : rendezvous_(start_rendezvous(secret_)) {
    const auto size = static_cast<int>(ranks.size());
    for (int rank = 0; rank < size; ++rank) {
      auto started =
          RankProcess::start(ranks[rank].task, rank, size, ranks[rank].host, secret_, *rendezvous_);
      HVD_CHECK(started.is_ok());
      ranks_.push_back(std::move(*started));
    }
  }

  RankProcess& operator[](int rank) { return ranks_[rank]; }
  void expect_ready(int rank) {
    const auto line = ranks_[rank].line(soon());
    EXPECT_EQ(line.is_ok() ? *line : line.status().message(), "ready");
  }
  void expect_all_ready() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) expect_ready(static_cast<int>(rank));
  }

  // The time from the death of one rank until the last of the other ranks has reported it.
  std::chrono::microseconds kill(int victim) {
    return strike(
        victim, [](RankProcess& rank) { rank.kill(); }, "");
  }
  // The same for another kind of failure; the messages of the other ranks contain `text`.
  std::chrono::microseconds strike(int victim, const std::function<void(RankProcess&)>& blow,
                                   const std::string& text) {
    std::this_thread::sleep_for(20ms);  // until the ranks wait
    const auto killed = std::chrono::duration_cast<std::chrono::microseconds>(
        Deadline::Clock::now().time_since_epoch());
    blow(ranks_[victim]);
    std::chrono::microseconds last{0};
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (rank == victim) continue;
      const auto line = ranks_[rank].line(soon());
      EXPECT_OK(line);
      if (!line.is_ok()) continue;
      std::istringstream words(*line);
      std::string code;
      int lost = -1;
      int64_t time = 0;
      words >> code >> lost >> time;
      EXPECT_EQ(code, "kPeerLost") << *line;
      EXPECT_EQ(lost, victim) << "rank " << rank << " says: " << *line;
      EXPECT_THAT(*line, ::testing::HasSubstr(text));
      last = std::max(last, std::chrono::microseconds(time) - killed);
      EXPECT_EQ(ranks_[rank].wait(), 1);
    }
    return last;
  }

 private:
  const Secret secret_ = Secret::generate();
  const std::unique_ptr<RendezvousServer> rendezvous_;
  std::vector<RankProcess> ranks_;
};

struct Victims {
  const char* name;
  std::vector<Processes::Rank> ranks;
  const char* victim;  // the task of the process that is killed
  std::chrono::microseconds limit;
};

class Death : public ::testing::TestWithParam<Victims> {};
INSTANTIATE_TEST_SUITE_P(
    Hosts, Death,
    ::testing::Values(
        Victims{
            "OneHost", {{"wait", "a"}, {"wait", "a"}, {"wait", "a"}, {"wait", "a"}}, "heavy", 20ms},
        Victims{
            "Idle", {{"idle", "a"}, {"idle", "a"}, {"idle", "b"}, {"idle", "c"}}, "idle", 200ms},
        Victims{"OneArena", {{"meet", "a"}, {"meet", "a"}, {"meet", "a"}}, "heavy", 20ms},
        Victims{"TwoHosts",
                {{"wait", "a"}, {"wait", "a"}, {"wait", "b"}, {"wait", "b"}, {"wait", "b"}},
                "wait",
                200ms},
        Victims{"ManyHosts",
                {{"wait", "a"}, {"wait", "b"}, {"wait", "c"}, {"wait", "d"}, {"wait", "e"}},
                "wait",
                200ms}),
    [](const auto& param) { return param.param.name; });

TEST_P(Death, OfOneProcessFailsEveryCallOnAllOthersInTimeAndNamesIt) {
  // The best of three: the machine may be busy.
  auto best = std::chrono::microseconds::max();
  for (int victim = 0; victim < (kSanitized ? 1 : 3); ++victim) {
    auto ranks = GetParam().ranks;
    if (!kSanitized) ranks[victim].task = GetParam().victim;
    Processes job(ranks);
    job.expect_all_ready();
    best = std::min(best, job.kill(victim));
    // Filling 1 GiB takes seconds.
    if (std::string_view(GetParam().victim) == "heavy" && best < GetParam().limit) break;
  }
  std::printf("killed rank known after %.1f ms\n", static_cast<double>(best.count()) / 1000);
  if (kSanitized) return;
  EXPECT_LT(best, GetParam().limit);
}

TEST(Fabric, AFrozenRankIsNamedByAllOthersOnceItWasSilentForTheHeartbeatTimeout) {
  const auto timeout = kSanitized ? 3000ms : 1000ms;
  ::setenv("HVD_RANK_HEARTBEAT_MS", std::to_string(timeout.count()).c_str(), 1);
  Processes job({{"wait", "a"}, {"wait", "a"}, {"idle", "a"}, {"wait", "a"}, {"meet", "a"}});
  ::unsetenv("HVD_RANK_HEARTBEAT_MS");
  job.expect_all_ready();
  // A rank that was frozen itself reports no other rank as lost.
  for (int rank = 0; rank < 5; ++rank) job[rank].freeze();
  std::this_thread::sleep_for(timeout * 3 / 2);
  for (int rank = 0; rank < 5; ++rank) job[rank].thaw();
  std::this_thread::sleep_for(timeout * 3 / 2);  // no rank is lost without a reason
  const auto known = job.strike(
      2, [](RankProcess& rank) { rank.freeze(); }, "frozen or unreachable");
  EXPECT_GT(known, timeout / 2);
}

struct Early {
  const char* task;  // of the process that is killed
  std::vector<std::string> hosts;
};

class EarlyDeath : public ::testing::TestWithParam<Early> {};
INSTANTIATE_TEST_SUITE_P(Tasks, EarlyDeath,
                         ::testing::Values(Early{"absent", {"a", "a", "b", "b"}},
                                           Early{"joined", {"a", "a", "a", "a"}},
                                           Early{"joined", {"a", "a", "b", "b"}},
                                           Early{"attached", {"a", "a", "a", "a"}}),
                         [](const auto& param) {
                           return std::string(param.param.task) +
                                  (param.param.hosts[2] == "a" ? "OneHost" : "TwoHosts");
                         });

// No rank waits at the rendezvous server for a rank that has died.
TEST_P(EarlyDeath, WhileOthersComeTogetherFailsThemAllAndNamesIt) {
  constexpr int kVictim = 1;
  std::vector<Processes::Rank> ranks;
  for (const std::string& host : GetParam().hosts) ranks.push_back({"wait", host});
  ranks[kVictim].task = GetParam().task;
  Processes job(ranks);
  job.expect_ready(kVictim);
  EXPECT_LT(job.kill(kVictim), 2s);
}

TEST(Fabric, AForkedChildThatEndsDoesNoHarmToItsParent) {
  Processes job({{"fork", "a"}, {"fork", "a"}, {"fork", "b"}});
  for (int rank = 0; rank < 3; ++rank) {
    const auto line = job[rank].line(soon());
    EXPECT_THAT(line.is_ok() ? *line : line.status().message(), ::testing::StartsWith("ok "));
    EXPECT_EQ(job[rank].wait(), 0);
  }
}

std::set<std::string> files_in_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("horovod-")) names.insert(name);
  }
  return names;
}

TEST(Fabric, NothingIsLeftInSharedMemoryHoweverProcessesEnd) {
  const auto before = files_in_shared_memory();
  {
    Processes all_killed({{"wait", "a"}, {"wait", "a"}, {"wait", "a"}});
    all_killed.expect_all_ready();
    for (int rank = 0; rank < 3; ++rank) all_killed[rank].kill();
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(all_killed[rank].wait(), -1);
    EXPECT_EQ(files_in_shared_memory(), before);
    Processes good({{"exchange", "a"}, {"exchange", "a"}, {"exchange", "a"}});
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(good[rank].wait(), 0);
    EXPECT_EQ(files_in_shared_memory(), before);
    // The first rank has created the memory; not all other ranks have mapped it.
    Processes half_way({{"wait", "a"}, {"wait", "a"}, {"attached", "a"}});
    half_way.expect_ready(2);
    for (int rank = 0; rank < 3; ++rank) half_way[rank].kill();
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(half_way[rank].wait(), -1);
    EXPECT_EQ(files_in_shared_memory(), before);
  }
}

TEST(Fabric, SixtyFourProcessesComeTogether) {
  constexpr int kRanks = 64;
  std::vector<Processes::Rank> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back({"control", "host" + std::to_string(rank / 16)});
  }
  const auto start = Deadline::Clock::now();
  Processes job(ranks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto line = job[rank].line(Deadline::after(50s));
    ASSERT_OK(line);
    EXPECT_THAT(*line, ::testing::StartsWith("ok "));
  }
  const auto took = Deadline::Clock::now() - start;
  std::printf("64 processes on 4 hosts: %.2f s until each had heard from 6 others\n",
              std::chrono::duration<double>(took).count());
  EXPECT_LT(took, kSanitized ? 50s : 10s);  // two cores need 1.3
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job[rank].wait(), 0);
}

// ---- Pure computation.

TEST(PeerDirectory, AddressesThatLeadBackToThisMachineAreNotTried) {
  const auto address = [](const char* text, int prefix, bool loopback = false) {
    return PeerRecord::Address{*Endpoint::parse(text), static_cast<uint8_t>(prefix), loopback};
  };
  PeerRecord a;
  a.boot_id = "boot of a";
  a.addresses = {address("172.17.0.1:1", 16), address("10.1.0.1:2", 24)};
  PeerRecord b = a;
  b.boot_id = "boot of b";
  b.addresses = {address("127.0.0.1:3", 8, true), address("172.17.0.1:4", 16),
                 address("192.168.0.2:5", 24), address("10.1.0.2:6", 24)};
  const PeerDirectory directory(0, {a, b});
  EXPECT_FALSE(directory.is_local(1));
  const auto found = directory.reachable(1);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].to_string(), "10.1.0.2:6");  // in our own subnet
  EXPECT_EQ(found[1].to_string(), "192.168.0.2:5");
}

}  // namespace
}  // namespace hvd
