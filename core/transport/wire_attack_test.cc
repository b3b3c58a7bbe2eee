// SPDX-License-Identifier: Apache-2.0
// A man in the middle of every kind of connection: each attack ends in an error that names the
// peer, never in a wrong result or a hang.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "testing/assertions.h"
#include "transport/fabric.h"
#include "transport/testing/relay.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::Action;
using ::testing::HasSubstr;
using testing::Relay;
using Purpose = Hello::Purpose;
using Direction = Relay::Direction;

Deadline soon() { return Deadline::after(20s); }

std::string name_of(Action action) {
  constexpr const char* kNames[] = {"ChangePayload", "ChangeTag", "ShortenLength",
                                    "RaiseLength",   "Repeat",    "Drop",
                                    "Swap",          "Cut",       "Swallow"};
  return kNames[static_cast<int>(action)];
}

constexpr Action kAllActions[] = {
    Action::kChangePayload, Action::kChangeTag, Action::kShortenLength,
    Action::kRaiseLength,   Action::kRepeat,    Action::kDrop,
    Action::kSwap,          Action::kCut,       Action::kSwallow};

// A cut connection is closed for both ends: each reports the other as lost, and the job reports the
// first of the two failures.
void expect_named(const Status& outcome, int sender, Action action) {
  EXPECT_CODE(StatusCode::kPeerLost, outcome);
  if (action == Action::kCut && outcome.lost_rank() == 1 - sender) return;
  EXPECT_EQ(outcome.lost_rank(), sender) << outcome.to_string();
}

// Attacks that only a deadline detects: bytes are missing, and none is wrong.
bool silences(Action action) {
  return action == Action::kSwallow || action == Action::kRaiseLength;
}

std::unique_ptr<RendezvousServer> start_rendezvous(const Secret& secret, bool tls) {
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  options.tls = tls;
  auto rendezvous = RendezvousServer::start(secret, options);
  HVD_CHECK(rendezvous.is_ok());
  return std::move(rendezvous).value();
}

// Two ranks on two hosts, as threads, with a relay in front of each of their listeners.
class RelayedJob {
 public:
  explicit RelayedJob(bool tls) : tls_(tls), rendezvous_(start_rendezvous(secret_, tls)) {}

  std::chrono::milliseconds heartbeat_timeout{60'000};

  std::vector<Status> run(const std::function<Status(Fabric&)>& body) {
    std::vector<Status> outcomes(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.push_back(start_thread("rank " + std::to_string(rank),
                                     [&, rank] { outcomes[rank] = run_rank(rank, body); }));
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  // Attacks the next record on a connection that was opened to `rank`.
  void strike(int rank, const Relay::Attack& attack) {
    const std::lock_guard lock(mutex_);
    for (const auto& relay : relays_[rank]) relay->strike(attack);
  }
  bool has_struck(int rank) {
    const std::lock_guard lock(mutex_);
    return std::any_of(relays_[rank].begin(), relays_[rank].end(),
                       [](const auto& relay) { return relay->has_struck(); });
  }

 private:
  Status run_rank(int rank, const std::function<Status(Fabric&)>& body) {
    HVD_TRY_ASSIGN(const auto client, RendezvousClient::connect(rendezvous_->endpoint().to_string(),
                                                                secret_, tls_, soon()));
    FabricOptions options;
    options.rank = rank;
    options.size = 2;
    options.host_name = "host" + std::to_string(rank);
    options.interfaces = {"lo"};
    options.tls = tls_;
    options.tags = true;
    options.heartbeat_timeout = heartbeat_timeout;
    options.advertise = [this, rank](const Endpoint& listening) {
      const std::lock_guard lock(mutex_);
      relays_[rank].push_back(std::make_unique<Relay>(listening, 2, tls_));
      return relays_[rank].back()->endpoint();
    };
    HVD_TRY_ASSIGN(const auto fabric, Fabric::join(options, secret_, client.get(), soon()));
    return body(*fabric);
  }

  const Secret secret_ = Secret::generate();
  const bool tls_;
  const std::unique_ptr<RendezvousServer> rendezvous_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Relay>> relays_[2];
};

struct Case {
  Action action;
  bool tls;
};

std::vector<Case> cases(const std::vector<bool>& tls) {
  std::vector<Case> all;
  for (const bool each : tls) {
    for (const Action action : kAllActions) all.push_back({action, each});
  }
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return name_of(info.param.action) + (info.param.tls ? "Tls" : "Tags");
}

class DataUnderAttack : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Actions, DataUnderAttack, ::testing::ValuesIn(cases({false, true})),
                         name_of_case);

constexpr size_t kElements = 40'000;  // three records

// Both ranks exchange one message. The receiver checks every byte: by recv() in even rounds, by
// recv_pieces() in odd rounds.
Status exchange_round(Transport& transport, int round, Deadline deadline) {
  const int other = 1 - transport.rank();
  std::vector<uint32_t> out(kElements);
  std::iota(out.begin(), out.end(), static_cast<uint32_t>(round * 1000 + transport.rank()));
  std::vector<uint32_t> expected(kElements);
  std::iota(expected.begin(), expected.end(), static_cast<uint32_t>(round * 1000 + other));
  std::vector<uint32_t> in(kElements);
  const Bytes into = std::as_writable_bytes(std::span(in));
  HVD_TRY(transport.send(other, std::as_bytes(std::span(out)), deadline));
  if (round % 2 == 0) {
    HVD_TRY(transport.recv(other, into, deadline));
  } else {
    size_t filled = 0;
    const auto consume = [&](ConstBytes piece) -> Status {
      const ConstBytes right = std::as_bytes(std::span(expected)).subspan(filled, piece.size());
      if (!std::equal(piece.begin(), piece.end(), right.begin())) {
        return internal_error("wrong bytes were handed up");
      }
      std::copy(piece.begin(), piece.end(), into.begin() + static_cast<std::ptrdiff_t>(filled));
      filled += piece.size();
      return Status::ok();
    };
    HVD_TRY(transport.recv_pieces(other, into.size(), sizeof(uint32_t), consume, deadline));
  }
  HVD_TRY(transport.flush(deadline));
  return in == expected ? Status::ok() : internal_error("wrong bytes were received");
}

TEST_P(DataUnderAttack, EndsTheCommunicatorAndNamesTheSender) {
  const auto [action, tls] = GetParam();
  // The attack falls on a round of either kind.
  for (const int struck_round : {4, 5}) {
    RelayedJob job(tls);
    const auto outcomes = job.run([&, action = action, tls = tls](Fabric& fabric) -> Status {
      HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, {0, 1}, soon()));
      for (int round = 0; round < 1000; ++round) {
        if (round == struck_round && transport->rank() == 0) {
          job.strike(1, {action, Direction::kToServer,
                         tls ? std::nullopt : std::optional(Purpose::kData)});
        }
        // Rank 1 times out first: it misses the bytes of this round, or the last bytes before it,
        // which may still be on their way.
        const bool hurries =
            silences(action) && transport->rank() == 1 && round >= struck_round - 1;
        HVD_TRY(exchange_round(*transport, round, hurries ? Deadline::after(1s) : soon()));
      }
      return Status::ok();
    });
    EXPECT_TRUE(job.has_struck(1));
    const Status& victim = outcomes[1];
    if (silences(action) && victim.code() == StatusCode::kTimeout) {
      EXPECT_THAT(victim.message(), HasSubstr("rank 0 did not send in time"));
    } else {
      expect_named(victim, 0, action);
      if (action != Action::kCut) {
        EXPECT_THAT(victim.message(), HasSubstr("what it sent was changed on the wire"));
        EXPECT_THAT(victim.message(), HasSubstr("between host host0 and host host1"));
      }
    }
    EXPECT_FALSE(outcomes[0].is_ok());
    EXPECT_NE(outcomes[0].code(), StatusCode::kInternal) << outcomes[0].to_string();
  }
}

class ControlUnderAttack : public ::testing::TestWithParam<Case> {};
// Not kSwallow: missing messages look like a rank that has nothing to send. The stall check reports
// that.
INSTANTIATE_TEST_SUITE_P(Actions, ControlUnderAttack,
                         ::testing::Values(Case{Action::kChangePayload, false},
                                           Case{Action::kChangeTag, false},
                                           Case{Action::kShortenLength, false},
                                           Case{Action::kRaiseLength, false},
                                           Case{Action::kRepeat, false}, Case{Action::kDrop, false},
                                           Case{Action::kSwap, false}, Case{Action::kCut, false},
                                           Case{Action::kDrop, true}, Case{Action::kRepeat, true},
                                           Case{Action::kChangePayload, true}),
                         name_of_case);

// Sends numbers to the other rank and expects the numbers of that rank in order.
Status talk(ControlPlane& control, int other, int messages,
            const std::function<void(int)>& before) {
  uint32_t received = 0;
  for (int i = 0; i < messages; ++i) {
    before(i);
    std::vector<uint32_t> message(50, static_cast<uint32_t>(i));
    HVD_TRY(control.send(other, std::as_bytes(std::span(message)), Urgency::kUsual));
    const auto take = [&](int from, ConstBytes bytes) -> Status {
      const std::vector<uint32_t> expected(50, received++);
      const ConstBytes right = std::as_bytes(std::span(expected));
      const bool good =
          from == other && std::equal(bytes.begin(), bytes.end(), right.begin(), right.end());
      return good ? Status::ok() : internal_error("a wrong message was handed up");
    };
    HVD_TRY(control.receive(take).status());
    HVD_TRY(control.check());
    std::this_thread::sleep_for(1ms);
  }
  return Status::ok();
}

TEST_P(ControlUnderAttack, EndsTheControlPlaneAndNamesTheSender) {
  const auto [action, tls] = GetParam();
  RelayedJob job(tls);
  const auto outcomes = job.run([&, action = action, tls = tls](Fabric& fabric) -> Status {
    HVD_TRY_ASSIGN(const auto transport, fabric.make_mesh(0, {0, 1}, soon()));
    HVD_TRY_ASSIGN(const auto control, fabric.make_control(0, *transport, soon()));
    // Rank 1 has opened the connection, to its parent.
    const auto strike = [&](int i) {
      if (i != 5 || fabric.rank() != 1) return;
      job.strike(
          0, {action, Direction::kToServer, tls ? std::nullopt : std::optional(Purpose::kControl)});
    };
    return talk(*control, 1 - fabric.rank(), 5000, strike);
  });
  EXPECT_TRUE(job.has_struck(0));
  expect_named(outcomes[0], 1, action);
  EXPECT_FALSE(outcomes[1].is_ok());
  EXPECT_NE(outcomes[1].code(), StatusCode::kInternal) << outcomes[1].to_string();
}

class WatchUnderAttack : public ::testing::TestWithParam<Case> {};
// Watch messages are rare, so attacks that differ from these only in the byte are left out.
INSTANTIATE_TEST_SUITE_P(Actions, WatchUnderAttack,
                         ::testing::Values(Case{Action::kChangePayload, false},
                                           Case{Action::kRepeat, false}, Case{Action::kDrop, false},
                                           Case{Action::kSwap, false}, Case{Action::kCut, false},
                                           Case{Action::kSwallow, false}),
                         name_of_case);

TEST_P(WatchUnderAttack, FailsTheJobAndNamesTheSender) {
  const Action action = GetParam().action;
  RelayedJob job(/*tls=*/false);
  job.heartbeat_timeout = 3s;
  const auto outcomes = job.run([&](Fabric& fabric) -> Status {
    if (fabric.rank() == 0) job.strike(1, {action, Direction::kToServer, Purpose::kWatch});
    const Deadline limit = soon();
    while (!fabric.health().failed() && !limit.expired()) std::this_thread::sleep_for(1ms);
    return fabric.health().status();
  });
  EXPECT_TRUE(job.has_struck(1));
  expect_named(outcomes[1], 0, action);
  EXPECT_FALSE(outcomes[0].is_ok());
}

struct RendezvousCase {
  Action action;
  Direction direction;
  bool tls;
};

std::vector<RendezvousCase> rendezvous_cases() {
  std::vector<RendezvousCase> all;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    for (const Action action : kAllActions) {
      // A client waits for each answer, so there is no next message to swap with.
      if (action != Action::kSwap) all.push_back({action, direction, false});
    }
    all.push_back({Action::kChangePayload, direction, true});
  }
  return all;
}

class RendezvousUnderAttack : public ::testing::TestWithParam<RendezvousCase> {};
INSTANTIATE_TEST_SUITE_P(Actions, RendezvousUnderAttack, ::testing::ValuesIn(rendezvous_cases()),
                         [](const auto& param) {
                           const bool up = param.param.direction == Direction::kToServer;
                           return name_of(param.param.action) + (up ? "ToServer" : "ToClient") +
                                  (param.param.tls ? "Tls" : "");
                         });

TEST_P(RendezvousUnderAttack, FailsTheCallAndNamesTheServer) {
  const auto [action, direction, tls] = GetParam();
  const Secret secret = Secret::generate();
  const auto rendezvous = start_rendezvous(secret, tls);
  Relay relay(rendezvous->endpoint(), 2, tls);
  auto client = RendezvousClient::connect(relay.endpoint().to_string(), secret, tls, soon());
  ASSERT_OK(client);
  // A missing message is noticed after this time.
  const bool missing = silences(action) || action == Action::kDrop;
  (*client)->set_answer_timeout(missing ? 500ms : 20s);
  Status outcome;
  for (int i = 0; i < 20 && outcome.is_ok(); ++i) {
    if (i == 5) relay.strike({action, direction, std::nullopt});
    const std::string value = "value " + std::to_string(i);
    outcome = (*client)->set("key", value);
    if (!outcome.is_ok()) break;
    const auto got = (*client)->get("key");
    outcome = got.status();
    if (got.is_ok()) {
      ASSERT_EQ(text_of(*got), value);
    }
  }
  EXPECT_TRUE(relay.has_struck());
  EXPECT_FALSE(outcome.is_ok());
  EXPECT_THAT(outcome.message(), HasSubstr("rendezvous server"));
}

// The time limit of the connection also limits each answer.
TEST(RendezvousUnderAttack, IsWaitedForNoLongerThanItsClientHadToConnect) {
  const Secret secret = Secret::generate();
  const auto rendezvous = start_rendezvous(secret, false);
  Relay relay(rendezvous->endpoint(), 2, false);
  auto client =
      RendezvousClient::connect(relay.endpoint().to_string(), secret, false, Deadline::after(2s));
  ASSERT_OK(client);
  relay.strike({Action::kSwallow, Direction::kToClient, std::nullopt});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_CODE(StatusCode::kTimeout, (*client)->set("key", "value"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, RendezvousClient::kMostPatience - 5s);
  EXPECT_TRUE(relay.has_struck());
}

// A rank that has given up asks the rendezvous server which rank is missing and reports the loss.
// An answer that never arrives would otherwise delay it for another 30 seconds.
TEST(RendezvousUnderAttack, KeepsARankThatHasGivenUpOnlyBriefly) {
  const Secret secret = Secret::generate();
  const auto rendezvous = start_rendezvous(secret, false);
  Relay relay(rendezvous->endpoint(), 2, false);
  auto client = RendezvousClient::connect(relay.endpoint().to_string(), secret, false, soon());
  ASSERT_OK(client);
  // The answers to enter_group and set pass: rank 0 then waits for rank 1.
  relay.strike({Action::kSwallow, Direction::kToClient, std::nullopt, 2});
  const auto start = std::chrono::steady_clock::now();
  const auto joined = Fabric::join({.rank = 0, .size = 2, .interfaces = {"lo"}, .linger = 100ms},
                                   secret, client->get(), Deadline::after(1s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_TRUE(relay.has_struck());
  EXPECT_CODE(StatusCode::kTimeout, joined);
}

}  // namespace
}  // namespace hvd
