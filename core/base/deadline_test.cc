// SPDX-License-Identifier: Apache-2.0
#include "base/deadline.h"

#include <thread>

#include "base/interrupt.h"
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

TEST(Deadline, ALimitOnTheTimeWithoutProgressCountsFromTheLast) {
  const auto progress = Deadline::Clock::now() - hours(3);
  const Deadline limit = Deadline::without_progress_for(hours(1));
  EXPECT_FALSE(limit.expired());
  EXPECT_EQ(limit.renewed(progress).when(), progress + hours(1));
  EXPECT_TRUE(limit.renewed(progress).expired());
  EXPECT_FALSE(limit.renewed(progress).renewed().expired());
  EXPECT_EQ(Deadline::at(progress).renewed().when(), progress) << "any other kind stays as it is";
  EXPECT_TRUE(Deadline::never().renewed().is_never());
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
  // The rest of one microsecond is rounded up to a millisecond, or is 0 once it has passed.
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

// Returns true from the n-th call on.
struct Caller {
  explicit Caller(int says_yes_at) : yes_at(says_yes_at) {}
  static int ask(void* self) {
    auto& caller = *static_cast<Caller*>(self);
    return ++caller.questions >= caller.yes_at ? 1 : 0;
  }
  int yes_at;
  int questions = 0;
};

TEST(Interrupt, EndsEveryDeadlineOfItsThreadAndOfNoOther) {
  Caller caller(1);
  {
    const Interrupt interrupt(Caller::ask, &caller);
    EXPECT_FALSE(interrupt.was_raised());
    EXPECT_TRUE(Deadline::never().expired());
    EXPECT_TRUE(interrupt.was_raised());
    EXPECT_EQ(Deadline::after(hours(1)).remaining(), Deadline::Clock::duration::zero());
    EXPECT_EQ(Deadline::after(hours(1)).poll_milliseconds(), 0);
    EXPECT_EQ(Deadline::never().poll_milliseconds(), 0);
    std::thread([] { EXPECT_FALSE(Deadline::after(hours(1)).expired()); }).join();
  }
  EXPECT_EQ(caller.questions, 1);
  EXPECT_FALSE(Deadline::never().expired());
}

TEST(Interrupt, IsAskedForWhileAWaitGoesOn) {
  Caller caller(3);
  const Interrupt interrupt(Caller::ask, &caller);
  EXPECT_LE(Deadline::never().poll_milliseconds(), Interrupt::kInterval.count());
  Mutex mutex;
  CondVar cond;
  MutexLock lock(mutex);
  while (cond.wait(mutex, Deadline::never())) {
  }
  EXPECT_EQ(caller.questions, 3);
}

TEST(Interrupt, IsAskedForWithoutTheLockOfTheWait) {
  struct Locker {
    static int ask(void* mutex) {
      // Like Python, whose global lock may belong to another thread that waits for this mutex.
      std::thread([mutex] { MutexLock lock(*static_cast<Mutex*>(mutex)); }).join();
      return 1;
    }
  };
  Mutex mutex;
  CondVar cond;
  const Interrupt interrupt(Locker::ask, &mutex);
  MutexLock lock(mutex);
  EXPECT_FALSE(cond.wait(mutex, Deadline::after(hours(1))));
}

TEST(Interrupt, WithoutAQuestionChangesNothing) {
  const Interrupt interrupt(nullptr, nullptr);
  EXPECT_FALSE(Interrupt::possible());
  EXPECT_FALSE(Deadline::never().expired());
}

}  // namespace
}  // namespace hvd
