// SPDX-License-Identifier: Apache-2.0
#include "collectives/barrier/barrier.h"

#include <atomic>

#include "collectives/testing/worlds.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using testing::soon;

HVD_TEST_WORLDS(Barrier, testing::worlds());
HVD_TEST_WORLDS(BarrierFailure, testing::worlds_to_break());

TEST_P(Barrier, NoRankReturnsBeforeEveryRankHasCalled) {
  const auto [kind, ranks] = GetParam();
  std::atomic<int> arrivals = 0;
  testing::run_ranks(kind, ranks, [&](Transport& transport) -> Status {
    Scratch scratch;
    for (int round = 1; round <= 50; ++round) {
      ++arrivals;
      HVD_TRY(barrier({transport, scratch, soon()}));
      EXPECT_GE(arrivals.load(), round * transport.size());
    }
    return Status::ok();
  });
}

TEST_P(BarrierFailure, ADeathAtAnyStepIsKnownToAll) {
  testing::expect_every_death_is_known(GetParam(), [](Transport& transport) {
    Scratch scratch;
    return barrier({transport, scratch, soon()});
  });
}

}  // namespace
}  // namespace hvd
