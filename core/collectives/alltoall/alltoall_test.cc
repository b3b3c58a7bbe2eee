// SPDX-License-Identifier: Apache-2.0
#include "collectives/alltoall/alltoall.h"

#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::pattern;
using testing::run_ranks;
using testing::soon;

HVD_TEST_WORLDS(Alltoall, testing::worlds());
HVD_TEST_WORLDS(AlltoallFailure, testing::worlds_to_break());

// Bytes that `from` sends to `to`: often different in the two directions, and sometimes 0.
using Amount = size_t (*)(int from, int to);
constexpr Amount kAmounts[] = {
    [](int, int) -> size_t { return 0; },
    [](int, int) -> size_t { return 1; },
    [](int from, int to) -> size_t { return static_cast<size_t>(from * 3 + to * 5) % 7 * 100; },
    // More than a rank may send ahead (kAheadBytes), but only from rank 0 and to rank 1.
    [](int from, int to) -> size_t { return from == 0 || to == 1 ? 300'001 : 10; },
};

std::vector<std::byte> message(Amount amount, int from, int to) {
  return pattern(amount(from, to), 100 * from + to);
}

// One rank's buffers.
struct Buffers {
  std::vector<std::byte> in, out, expected;
  std::vector<size_t> send_bytes, recv_bytes;

  Buffers(Amount amount, int rank, int size) {
    for (int other = 0; other < size; ++other) {
      const auto sent = message(amount, rank, other);
      const auto got = message(amount, other, rank);
      in.insert(in.end(), sent.begin(), sent.end());
      expected.insert(expected.end(), got.begin(), got.end());
      send_bytes.push_back(sent.size());
      recv_bytes.push_back(got.size());
    }
    out.resize(expected.size());
  }
};

TEST_P(Alltoall, EveryRankGetsWhatEachHadForIt) {
  const auto [kind, ranks] = GetParam();
  run_ranks(kind, ranks, [](Transport& transport) -> Status {
    Scratch scratch;
    for (const Amount amount : kAmounts) {
      Buffers b(amount, transport.rank(), transport.size());
      HVD_TRY(alltoall({transport, scratch, soon()}, b.in, b.send_bytes, b.out, b.recv_bytes));
      EXPECT_TRUE(b.out == b.expected);
    }
    return Status::ok();
  });
}

TEST_P(AlltoallFailure, ADeathAtAnyStepIsKnownToAll) {
  testing::expect_every_death_is_known(GetParam(), [](Transport& transport) {
    Scratch scratch;
    Buffers b(kAmounts[2], transport.rank(), transport.size());
    return alltoall({transport, scratch, soon()}, b.in, b.send_bytes, b.out, b.recv_bytes);
  });
}

}  // namespace
}  // namespace hvd
