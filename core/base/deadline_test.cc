#include "base/deadline.h"

#include "base/mutex.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Deadline, NeverDoesNotExpireAndOverflowCountsAsNever) {
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_EQ(Deadline::never().remaining(), Deadline::Clock::duration::max());
  EXPECT_TRUE(Deadline::after(Deadline::Clock::duration::max()).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::duration<double>(1e12)).is_never());
}

TEST(Deadline, ThePastIsExpiredAndHasNothingRemaining) {
  const Deadline past = Deadline::after(milliseconds(-5));
  EXPECT_TRUE(past.expired());
  EXPECT_EQ(past.remaining(), Deadline::Clock::duration::zero());
  EXPECT_EQ(past.poll_milliseconds(), 0);
}

TEST(Deadline, PollTimeIsRoundedUpAndLimited) {
  const Deadline soon = Deadline::after(hours(1) - microseconds(1));
  EXPECT_LE(soon.poll_milliseconds(hours(2)), 3'600'000);
  EXPECT_GT(soon.poll_milliseconds(hours(2)), 3'500'000);
  EXPECT_EQ(soon.poll_milliseconds(milliseconds(20)), 20);
  EXPECT_EQ(Deadline::never().poll_milliseconds(milliseconds(20)), 20);
  // What is left of one microsecond is a whole millisecond, or nothing once it is over.
  EXPECT_LE(Deadline::after(microseconds(1)).poll_milliseconds(), 1);
}

TEST(Deadline, TheEarlierOfTwoWins) {
  const auto now = Deadline::Clock::now();
  const Deadline a = Deadline::at(now);
  const Deadline b = Deadline::at(now + hours(1));
  EXPECT_EQ(earlier(a, b).when(), now);
  EXPECT_EQ(earlier(b, a).when(), now);
  EXPECT_EQ(earlier(Deadline::never(), b).when(), b.when());
}

TEST(CondVar, WaitEndsAtItsDeadline) {
  Mutex mutex;
  CondVar cond;
  MutexLock lock(mutex);
  const Deadline deadline = Deadline::after(milliseconds(1));
  while (cond.wait(mutex, deadline)) {
  }
  EXPECT_TRUE(deadline.expired());
}

}  // namespace
}  // namespace hvd
