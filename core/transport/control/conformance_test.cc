// SPDX-License-Identifier: Apache-2.0
// The contract of control/control_plane.h, over every kind of transport.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "net/codec.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::outcomes_of_members;
using testing::run_members;
using testing::TransportKind;
using Clock = std::chrono::steady_clock;
using Listener = Doorbell::Listener;

constexpr auto kLong = 20s;  // far longer than a sleep that the doorbell ends

class ControlConformance : public ::testing::TestWithParam<TransportKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, ControlConformance,
                         ::testing::ValuesIn(testing::all_transport_kinds()),
                         [](const auto& kind) { return testing::to_string(kind.param); });

std::vector<int> neighbours(const ControlPlane& control) {
  std::vector<int> ranks = control.tree().children;
  if (control.tree().parent >= 0) ranks.push_back(control.tree().parent);
  return ranks;
}

// Receives as an engine does: sleeps when no message has arrived, until `done` and all is sent.
template <typename Done>
Status receive_until(ControlPlane& control, ControlPlane::Take take, Done done) {
  while (!done() || !control.drained()) {
    HVD_TRY_ASSIGN(int count, control.receive(take));
    if (count > 0) continue;
    control.doorbell().listen(Listener::kEngineThread);
    control.arm();
    HVD_TRY_ASSIGN(count, control.receive(take));
    const auto start = Clock::now();
    if (count == 0 && !(done() && control.drained()))
      control.doorbell().sleep(Listener::kEngineThread, kLong);
    control.doorbell().stop_listening();
    if (Clock::now() - start > kLong / 2) return internal_error("the doorbell did not ring");
    HVD_TRY(control.check());
  }
  return Status::ok();
}

std::string numbered(int from, int to, int number, size_t size) {
  std::string text = std::to_string(from) + ">" + std::to_string(to) + ":" + std::to_string(number);
  text.resize(std::max(text.size(), size), static_cast<char>('a' + number % 26));
  return text;
}

// Every rank sends messages of `sizes` to each neighbour, all of them before it receives.
void exchange_with_neighbours(TransportKind kind, int ranks, const std::vector<size_t>& sizes) {
  run_members(kind, ranks, [&](Transport& transport, ControlPlane& control) -> Status {
    const std::vector<int> peers = neighbours(control);
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (const int peer : peers) {
        const auto text = numbered(transport.rank(), peer, static_cast<int>(i), sizes[i]);
        HVD_TRY(
            control.send(peer, bytes_of(text), i % 2 == 0 ? Urgency::kUsual : Urgency::kUrgent));
      }
    }
    std::map<int, size_t> received;
    size_t total = 0;
    const auto take = [&](int from, ConstBytes message) -> Status {
      const size_t i = received[from]++;
      ++total;
      if (i >= sizes.size()) return internal_error("a message that was not sent");
      if (text_of(message) != numbered(from, transport.rank(), static_cast<int>(i), sizes[i])) {
        return internal_error("not the message that comes next");
      }
      return Status::ok();
    };
    return receive_until(control, take, [&] { return total == peers.size() * sizes.size(); });
  });
}

TEST_P(ControlConformance, MessagesOfAnEdgeKeepTheirOrderAndBoundaries) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 400; ++i) sizes.push_back(i * i % 700);
  for (const int ranks : {1, 2, 5, 11}) exchange_with_neighbours(GetParam(), ranks, sizes);
}

TEST_P(ControlConformance, LargeMessagesPassEachOtherThroughSmallRings) {
  exchange_with_neighbours(GetParam(), 4, {1 << 20, 10});
}

TEST_P(ControlConformance, TakeMaySend) {
  // A message travels back and forth on each edge; `take` sends the answer.
  run_members(GetParam(), 3, [](Transport&, ControlPlane& control) -> Status {
    constexpr int kTimes = 200;
    const std::vector<int> peers = neighbours(control);
    if (control.tree().parent >= 0) {
      HVD_TRY(control.send(control.tree().parent, bytes_of("0"), Urgency::kUsual));
    }
    std::map<int, int> last;
    const auto take = [&](int from, ConstBytes message) -> Status {
      last[from] = std::stoi(std::string(text_of(message)));
      if (last[from] == kTimes) return Status::ok();
      return control.send(from, bytes_of(std::to_string(last[from] + 1)), Urgency::kUsual);
    };
    return receive_until(control, take, [&] {
      return std::all_of(peers.begin(), peers.end(),
                         [&](int peer) { return last.contains(peer) && last[peer] >= kTimes - 1; });
    });
  });
}

TEST_P(ControlConformance, AnIdleEngineIsWokenByUrgentMessages) {
  // The waker does not read messages, so on a connection all messages count as urgent.
  const bool by_ring = GetParam() != TransportKind::kTcp && GetParam() != TransportKind::kMesh;
  run_members(GetParam(), 2, [&](Transport& transport, ControlPlane& control) -> Status {
    int total = 0;
    const auto take = [&](int, ConstBytes) { return ++total, Status::ok(); };
    if (transport.rank() == 1) {
      HVD_TRY(receive_until(control, take, [&] { return total == 1; }));
      std::this_thread::sleep_for(5ms);  // until it sleeps; without the pause it is woken too
      HVD_TRY(control.send(0, bytes_of("for a waiting engine only"), Urgency::kUsual));
      std::this_thread::sleep_for(20ms);
      return control.send(0, bytes_of("of use to all"), Urgency::kUrgent);
    }
    control.doorbell().listen(Listener::kIdleEngineThread);
    control.arm();
    HVD_TRY(control.receive(take).status());
    HVD_TRY(control.send(1, bytes_of("ready"), Urgency::kUsual));
    const auto start = Clock::now();
    control.doorbell().sleep(Listener::kIdleEngineThread, kLong);
    EXPECT_LT(Clock::now() - start, kLong / 2);
    HVD_TRY(control.receive(take).status());
    if (by_ring) {
      EXPECT_EQ(total, 2);
    }
    return receive_until(control, take, [&] { return total == 2; });
  });
}

TEST_P(ControlConformance, AFailureAnywhereRingsAndEndsEveryCall) {
  const auto outcomes =
      outcomes_of_members(GetParam(), 5, [](Transport& transport, ControlPlane& control) -> Status {
        if (transport.rank() == 3) {
          std::this_thread::sleep_for(10ms);
          return invalid_argument("rank 3 has had enough");  // which aborts the other ranks
        }
        control.doorbell().listen(Listener::kIdleEngineThread);
        control.arm();
        const auto take = [](int, ConstBytes) { return Status::ok(); };
        auto received = control.receive(take);
        const auto start = Clock::now();
        if (received.is_ok()) control.doorbell().sleep(Listener::kIdleEngineThread, kLong);
        if (Clock::now() - start > kLong / 2) return internal_error("the doorbell did not ring");
        const Status failure = control.check();
        EXPECT_EQ(control.receive(take).status().message(), failure.message());
        for (const int peer : neighbours(control)) {
          EXPECT_EQ(control.send(peer, {}, Urgency::kUsual).message(), failure.message());
        }
        return failure;
      });
  for (const int rank : {0, 1, 2, 4}) {
    EXPECT_CODE(StatusCode::kAborted, outcomes[rank]);
    EXPECT_THAT(outcomes[rank].message(), ::testing::HasSubstr("rank 3 has had enough"));
  }
}

TEST_P(ControlConformance, AFailureOfTakeIsPassedOnAndFinal) {
  run_members(GetParam(), 2, [](Transport& transport, ControlPlane& control) -> Status {
    const auto refuse = [](int, ConstBytes) { return precondition("not this one"); };
    HVD_TRY(control.send(1 - transport.rank(), bytes_of("x"), Urgency::kUsual));
    EXPECT_CODE(StatusCode::kPrecondition, receive_until(control, refuse, [] { return false; }));
    EXPECT_CODE(StatusCode::kPrecondition, control.check());
    return Status::ok();
  });
}

TEST_P(ControlConformance, AMessageAboveTheLimitIsRefusedAndHarmless) {
  run_members(GetParam(), 2, [](Transport& transport, ControlPlane& control) -> Status {
    const ByteBuffer much((16 << 20) + 1);
    EXPECT_CODE(StatusCode::kInvalidArgument,
                control.send(1 - transport.rank(), much, Urgency::kUsual));
    int total = 0;
    HVD_TRY(control.send(1 - transport.rank(), bytes_of("x"), Urgency::kUsual));
    return receive_until(
        control, [&](int, ConstBytes) { return ++total, Status::ok(); },
        [&] { return total == 1; });
  });
}

}  // namespace
}  // namespace hvd
