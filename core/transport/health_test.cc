// SPDX-License-Identifier: Apache-2.0
#include "transport/health.h"

#include "testing/assertions.h"
#include "transport/tcp/wire.h"

namespace hvd {
namespace {

TEST(ReasonWithoutRank, UndoesWhatPeerLostAdds) {
  for (const int rank : {0, 7, 2147483647}) {
    const Status lost = peer_lost(rank, "connection reset");
    EXPECT_EQ(reason_without_rank(lost), "connection reset");
    EXPECT_EQ(peer_lost(rank, reason_without_rank(lost)).message(), lost.message());
  }
}

TEST(ReasonWithoutRank, LeavesOtherTextsAsTheyAre) {
  EXPECT_EQ(reason_without_rank(Status::ok()), "");
  // The prefix of a failure that names no lost rank is part of its text.
  EXPECT_EQ(reason_without_rank(aborted("rank 3: no")), "rank 3: no");
  const Status in_context = peer_lost(3, "gone").with_context("connect");
  EXPECT_EQ(reason_without_rank(in_context), in_context.message());
  // Only the number of the lost rank, and only once.
  EXPECT_EQ(reason_without_rank(peer_lost(1, "rank 1: gone")), "rank 1: gone");
  EXPECT_EQ(reason_without_rank(peer_lost(12, "rank 1: gone")), "rank 1: gone");
}

TEST(ReasonWithoutRank, AFailureKeepsItsTextFromRankToRank) {
  const Status lost = peer_lost(5, "host b: its process has ended");
  const Status once = failure_from(failure_message(/*origin=*/2, lost));
  const Status twice = failure_from(failure_message(/*origin=*/1, once));
  EXPECT_EQ(twice.message(), lost.message());
  EXPECT_EQ(twice.lost_rank(), 5);
}

}  // namespace
}  // namespace hvd
