// SPDX-License-Identifier: Apache-2.0
// The contract of transport.h, over every kind of transport.
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::outcomes_of_ranks;
using testing::run_ranks;
using testing::TransportKind;

// Far longer than any step takes: a test that reaches this deadline has failed.
Deadline soon() { return Deadline::after(20s); }

Bytes bytes_of(std::vector<uint8_t>& values) { return std::as_writable_bytes(std::span(values)); }

// Bytes that depend on the seed and on the position.
std::vector<uint8_t> pattern(size_t size, int seed) {
  std::vector<uint8_t> values(size);
  uint32_t state = 2654435761u * static_cast<uint32_t>(seed + 1);
  for (uint8_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint8_t>(state >> 24);
  }
  return values;
}

class TransportConformance : public ::testing::TestWithParam<TransportKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TransportConformance,
                         ::testing::ValuesIn(testing::all_transport_kinds()),
                         [](const auto& kind) { return testing::to_string(kind.param); });

TEST_P(TransportConformance, BytesKeepTheirOrderAndHaveNoBoundaries) {
  run_ranks(GetParam(), 2, [](Transport& transport) -> Status {
    auto sent = pattern(8, 1);
    std::vector<uint8_t> got(8);
    if (transport.rank() == 0) {
      HVD_TRY(transport.send(1, bytes_of(sent).first(3), soon()));
      HVD_TRY(transport.send(1, bytes_of(sent).subspan(3, 0), soon()));
      HVD_TRY(transport.send(1, bytes_of(sent).subspan(3), soon()));
      HVD_TRY(transport.recv(1, bytes_of(got).first(7), soon()));
      HVD_TRY(transport.recv(1, bytes_of(got).subspan(7), soon()));
    } else {
      HVD_TRY(transport.recv(0, bytes_of(got), soon()));
      HVD_TRY(transport.recv(0, {}, soon()));
      HVD_TRY(transport.send(0, bytes_of(sent), soon()));
    }
    EXPECT_EQ(got, sent);
    return transport.flush(soon());
  });
}

TEST_P(TransportConformance, ASendNeverWaitsForItsReceiver) {
  // 8 MiB exceed every socket buffer and ring: if send waited, all ranks would deadlock.
  run_ranks(GetParam(), 3, [](Transport& transport) -> Status {
    const int right = (transport.rank() + 1) % 3;
    const int left = (transport.rank() + 2) % 3;
    auto clockwise = pattern(8 << 20, transport.rank());
    auto counter = pattern(8 << 20, 10 + transport.rank());
    std::vector<uint8_t> from_left(8 << 20);
    std::vector<uint8_t> from_right(8 << 20);
    HVD_TRY(transport.send(right, bytes_of(clockwise), soon()));
    HVD_TRY(transport.send(left, bytes_of(counter), soon()));
    HVD_TRY(transport.recv(left, bytes_of(from_left), soon()));
    HVD_TRY(transport.recv(right, bytes_of(from_right), soon()));
    HVD_TRY(transport.flush(soon()));
    EXPECT_TRUE(from_left == pattern(8 << 20, left));
    EXPECT_TRUE(from_right == pattern(8 << 20, 10 + right));
    return Status::ok();
  });
}

TEST_P(TransportConformance, AfterFlushTheSenderMayOverwrite) {
  run_ranks(GetParam(), 2, [](Transport& transport) -> Status {
    constexpr size_t kSize = 200'000;
    for (int round = 0; round < 20; ++round) {
      auto buffer = transport.rank() == 0 ? pattern(kSize, round) : std::vector<uint8_t>(kSize);
      if (transport.rank() == 0) {
        HVD_TRY(transport.send(1, bytes_of(buffer), soon()));
        HVD_TRY(transport.flush(soon()));
        std::memset(buffer.data(), 0, buffer.size());
      } else {
        HVD_TRY(transport.recv(0, bytes_of(buffer), soon()));
        EXPECT_TRUE(buffer == pattern(kSize, round)) << "round " << round;
      }
    }
    return Status::ok();
  });
}

TEST_P(TransportConformance, PiecesAreWholeAlignedUnitsAndMayBeForwarded) {
  // The last rank sends everything back to the first, so that each byte passes through a consumer
  // that sends. Sends of odd sizes split units.
  for (const size_t unit : {1, 2, 8, 12, 64}) {
    run_ranks(GetParam(), 3, [unit](Transport& transport) -> Status {
      const size_t size = 30'000 * unit;
      std::vector<uint8_t> got;
      auto all = pattern(size, 7);
      if (transport.rank() == 0) {
        for (size_t at = 0, step = 1; at < size; at += step, step = std::min(step * 3, size - at)) {
          HVD_TRY(transport.send(1, bytes_of(all).subspan(at, step), soon()));
        }
      }
      std::vector<uint8_t> copy(size);
      const auto consume = [&](ConstBytes piece) -> Status {
        EXPECT_EQ(piece.size() % unit, 0u);
        EXPECT_GT(piece.size(), 0u);
        if ((unit & (unit - 1)) == 0) {
          EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % unit, 0u);
        }
        const Bytes kept = bytes_of(copy).subspan(got.size(), piece.size());
        std::memcpy(kept.data(), piece.data(), piece.size());
        got.resize(got.size() + piece.size());
        return transport.rank() == 0 ? Status::ok()
                                     : transport.send((transport.rank() + 1) % 3, kept, soon());
      };
      HVD_TRY(transport.recv_pieces((transport.rank() + 2) % 3, size, unit, consume, soon()));
      EXPECT_TRUE(copy == all) << "unit " << unit;
      return transport.flush(soon());
    });
  }
}

TEST_P(TransportConformance, ManySmallMessagesToEveryPeerArriveInOrder) {
  run_ranks(GetParam(), 5, [](Transport& transport) -> Status {
    constexpr int kRounds = 300;
    struct Message {
      int from, to, round;
      bool operator==(const Message&) const = default;
    };
    std::vector<Message> out;
    out.reserve(kRounds * transport.size());
    for (int round = 0; round < kRounds; ++round) {
      for (int to = 0; to < transport.size(); ++to) {
        if (to == transport.rank()) continue;
        out.push_back({transport.rank(), to, round});
        HVD_TRY(transport.send(to, std::as_bytes(std::span(&out.back(), 1)), soon()));
      }
      for (int from = 0; from < transport.size(); ++from) {
        if (from == transport.rank()) continue;
        Message in{};
        HVD_TRY(transport.recv(from, std::as_writable_bytes(std::span(&in, 1)), soon()));
        if (!(in == Message{from, transport.rank(), round})) return internal_error("wrong message");
      }
    }
    return transport.flush(soon());
  });
}

TEST_P(TransportConformance, AMissedDeadlineEndsTheCommunicatorOnEveryRank) {
  const auto outcomes = outcomes_of_ranks(GetParam(), 3, [](Transport& transport) -> Status {
    std::byte byte{};
    // No rank sends. Rank 0 times out early; the other ranks would wait 20 seconds.
    return transport.recv((transport.rank() + 1) % 3, {&byte, 1},
                          transport.rank() == 0 ? Deadline::after(30ms) : soon());
  });
  EXPECT_CODE(StatusCode::kTimeout, outcomes[0]);
  for (int rank : {1, 2}) {
    EXPECT_TRUE(outcomes[rank].code() == StatusCode::kAborted ||
                outcomes[rank].code() == StatusCode::kPeerLost)
        << outcomes[rank].to_string();
  }
}

TEST_P(TransportConformance, AFailingConsumerEndsTheCallAndTheCommunicator) {
  const auto outcomes = outcomes_of_ranks(GetParam(), 2, [](Transport& transport) -> Status {
    std::byte bytes[8]{};
    if (transport.rank() == 0) {
      HVD_TRY(transport.send(1, bytes, soon()));
      return transport.recv(1, bytes, soon());
    }
    return transport.recv_pieces(
        0, 8, 1, [](ConstBytes) { return internal_error("no"); }, soon());
  });
  EXPECT_CODE(StatusCode::kInternal, outcomes[1]);
  EXPECT_TRUE(outcomes[0].code() == StatusCode::kAborted ||
              outcomes[0].code() == StatusCode::kPeerLost)
      << outcomes[0].to_string();
}

TEST_P(TransportConformance, AbortFromAnotherThreadEndsEveryCallAndAllLaterOnes) {
  const auto outcomes = outcomes_of_ranks(GetParam(), 3, [](Transport& transport) -> Status {
    std::byte byte{};
    std::thread other;
    if (transport.rank() == 2) {
      other = start_thread("aborts",
                           [&transport] { transport.abort(aborted("the engine shuts down")); });
    }
    const Status first = transport.recv((transport.rank() + 1) % 3, {&byte, 1}, soon());
    if (other.joinable()) other.join();
    EXPECT_FALSE(transport.flush(soon()).is_ok());
    EXPECT_FALSE(transport.send((transport.rank() + 1) % 3, {&byte, 1}, soon()).is_ok());
    EXPECT_FALSE(transport.recv((transport.rank() + 1) % 3, {&byte, 1}, soon()).is_ok());
    return first;
  });
  EXPECT_CODE(StatusCode::kAborted, outcomes[2]);
  for (int rank : {0, 1}) {
    EXPECT_TRUE(outcomes[rank].code() == StatusCode::kAborted ||
                outcomes[rank].code() == StatusCode::kPeerLost)
        << outcomes[rank].to_string();
    EXPECT_THAT(outcomes[rank].message(), ::testing::HasSubstr("the engine shuts down"));
  }
}

// FaultyTransport over every kind of transport: the failure tests of the layers above rely on it.
Status two_messages_round_the_ring(Transport& transport, Deadline deadline = soon()) {
  const int n = transport.size();
  static constexpr std::byte kOut[2]{};  // outlives the call, which does not flush
  std::byte in[2]{};
  for (int i = 0; i < 2; ++i) {
    HVD_TRY(transport.send((transport.rank() + 1) % n, {kOut + i, 1}, deadline));
    HVD_TRY(transport.recv((transport.rank() + n - 1) % n, {in + i, 1}, deadline));
  }
  return Status::ok();
}

TEST_P(TransportConformance, ADeadRankIsNamedOnTheOthers) {
  const auto two_messages = [](Transport& transport) {
    return two_messages_round_the_ring(transport);
  };
  const auto calm = testing::run_ranks_with_faults(GetParam(), 3, {}, two_messages);
  EXPECT_EQ(calm.steps, std::vector<size_t>({4, 4, 4}));
  EXPECT_EQ(calm.send_steps[1], std::vector<size_t>({0, 2}));
  const auto run = testing::run_ranks_with_faults(GetParam(), 3, {{.rank = 1, .step = 2}},
                                                  [](Transport& transport) {
                                                    HVD_TRY(two_messages_round_the_ring(transport));
                                                    std::byte byte{};
                                                    return transport.recv(1, {&byte, 1}, soon());
                                                  });
  EXPECT_CODE(StatusCode::kAborted, run.outcomes[1]);
  for (int rank : {0, 2}) {
    EXPECT_CODE(StatusCode::kPeerLost, run.outcomes[rank]);
    EXPECT_EQ(run.outcomes[rank].lost_rank(), 1);
  }
}

TEST_P(TransportConformance, ADroppedMessageIsMissedByItsReceiverAndADelayedOneIsNot) {
  const auto dropped = testing::run_ranks_with_faults(
      GetParam(), 2, {{.rank = 0, .step = 2, .kind = Fault::Kind::kDrop}},
      [](Transport& transport) {
        return two_messages_round_the_ring(transport,
                                           transport.rank() == 1 ? Deadline::after(200ms) : soon());
      });
  EXPECT_CODE(StatusCode::kTimeout, dropped.outcomes[1]);
  const auto late = testing::run_ranks_with_faults(
      GetParam(), 2, {{.rank = 0, .step = 2, .kind = Fault::Kind::kDelay, .delay = 5ms}},
      [](Transport& transport) { return two_messages_round_the_ring(transport); });
  EXPECT_OK(late.outcomes[0]);
  EXPECT_OK(late.outcomes[1]);
}

}  // namespace
}  // namespace hvd
