// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

Status fails_when(bool yes) {
  if (yes) return timeout_error("store 10.0.0.1:99: no answer");
  return Status::ok();
}

Result<int> doubled(bool fail) {
  HVD_TRY(fails_when(fail));
  HVD_TRY_ASSIGN(const int value, Result<int>(21));
  return 2 * value;
}

TEST(Status, SuccessHasNoMessageAndIsOnePointerWide) {
  EXPECT_TRUE(Status::ok().is_ok());
  EXPECT_EQ(Status::ok().message(), "");
  EXPECT_EQ(Status::ok().to_string(), "kOk");
  EXPECT_EQ(sizeof(Status), sizeof(void*));
}

TEST(Status, CopiesAndContextKeepCodeMessageAndRank) {
  const Status lost = peer_lost(3, "connection reset");
  const Status copy = lost;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.code(), StatusCode::kPeerLost);
  EXPECT_EQ(copy.lost_rank(), 3);
  EXPECT_EQ(copy.with_context("allreduce").to_string(),
            "kPeerLost: allreduce: rank 3: connection reset");
  EXPECT_EQ(copy.with_context("allreduce").lost_rank(), 3);
}

TEST(Status, TryPassesTheFailureOn) {
  EXPECT_EQ(*doubled(false), 42);
  EXPECT_CODE(StatusCode::kTimeout, doubled(true));
}

TEST(Status, IoErrorNamesTheCauseInWords) {
  EXPECT_EQ(io_error("open /nowhere", ENOENT).message(),
            "open /nowhere: No such file or directory");
}

TEST(StatusDeathTest, ValueOfAFailedResultIsABug) {
  EXPECT_DEATH((void)doubled(true).value(), "no answer");
}

}  // namespace
}  // namespace hvd
