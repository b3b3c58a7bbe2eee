// SPDX-License-Identifier: Apache-2.0
#include "transport/progress_limit.h"

#include <chrono>
#include <thread>

#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using Clock = Deadline::Clock;
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::TransportKind;

TEST(ProgressLimit, CountsFromTheFirstLookAfterTheLastProgress) {
  Health health;
  ProgressLimit limit(Deadline::without_progress_for(hours(1)), health);
  const auto before = Clock::now();
  EXPECT_FALSE(limit.expired());
  const auto first = limit.deadline().when();
  EXPECT_GE(first, before + hours(1));
  EXPECT_FALSE(limit.expired());
  EXPECT_EQ(limit.deadline().when(), first);
  limit.restart();
  EXPECT_FALSE(limit.expired());
  EXPECT_GT(limit.deadline().when(), first);
}

TEST(ProgressLimit, ExpiresWithoutProgress) {
  Health health;
  ProgressLimit limit(Deadline::without_progress_for(milliseconds(1)), health);
  while (!limit.expired()) std::this_thread::sleep_for(milliseconds(1));
}

TEST(ProgressLimit, CountsFromTheProgressOfOtherRanksUpToALimit) {
  Health health;
  ProgressLimit limit(Deadline::without_progress_for(hours(1)), health);
  EXPECT_FALSE(limit.expired());
  const auto alone = limit.deadline().when();
  health.set_progress_elsewhere(alone);  // an hour after this rank was last busy
  EXPECT_FALSE(limit.expired());
  EXPECT_EQ(limit.deadline().when(), alone + hours(1));
  health.set_progress_elsewhere(alone + hours(100));
  EXPECT_FALSE(limit.expired());
  EXPECT_EQ(limit.deadline().when(), alone + hours(9));
}

TEST(ProgressLimit, LeavesOtherDeadlinesAsTheyAre) {
  Health health;
  health.set_progress_elsewhere(Clock::now() + hours(1));
  ProgressLimit limit(Deadline::at(Clock::now() - hours(1)), health);
  EXPECT_TRUE(limit.expired());
}

// Slow pieces together take several times the limit. A machine that stops a thread for longer than
// the limit fails an attempt, so there are several.
TEST(ProgressLimit, AReceiverIsPatientWithASenderThatGetsOn) {
  constexpr int kPieces = 30;
  constexpr int kAttempts = 5;
  for (const TransportKind kind : {TransportKind::kTcp, TransportKind::kShm}) {
    bool passed = false;
    for (int attempt = 0; attempt < kAttempts && !passed; ++attempt) {
      const auto outcomes =
          testing::outcomes_of_ranks(kind, 2, [&](Transport& transport) -> Status {
            const Deadline limit = Deadline::without_progress_for(milliseconds(200 << attempt));
            std::byte bytes[kPieces] = {};
            if (transport.rank() == 1) return transport.recv(0, bytes, limit);
            for (std::byte& piece : bytes) {
              HVD_TRY(transport.send(1, {&piece, 1}, limit));
              HVD_TRY(transport.flush(limit));
              std::this_thread::sleep_for(milliseconds(20 << attempt));
            }
            return Status::ok();
          });
      passed = outcomes[0].is_ok() && outcomes[1].is_ok();
    }
    EXPECT_TRUE(passed) << testing::to_string(kind);
  }
}

}  // namespace
}  // namespace hvd
