// SPDX-License-Identifier: Apache-2.0
#include "transport/control/bell.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/thread.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using Listener = Bell::Listener;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 20s;  // what no sleep lasts if the bell ends it

// One sleep, which has begun when the constructor returns.
class Sleep {
 public:
  Sleep(Bell& bell, Listener listener)
      : thread_(start_thread("sleeper", [this, &bell, listener] {
          thread_id_ = static_cast<int>(::syscall(SYS_gettid));
          bell.sleep(listener, kLong);
          over_ = true;
        })) {
    while (!over_ && !in_kernel()) std::this_thread::yield();
  }
  ~Sleep() { thread_.join(); }

  // Whether it ends; does not wait long when it does not.
  bool goes_on() const {
    std::this_thread::sleep_for(20ms);
    return !over_;
  }
  bool ends() const {
    const auto limit = Clock::now() + kLong / 2;
    while (!over_ && Clock::now() < limit) std::this_thread::yield();
    return over_;
  }

 private:
  bool in_kernel() const {
    if (thread_id_ == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/stat");
    std::string stat;
    std::getline(file, stat);
    return stat.find(") S ") != std::string::npos;
  }

  std::atomic<int> thread_id_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(Bell, WakesAnIdleKeeperOnlyForWhatIsUrgent) {
  Bell bell;
  bell.listen(Listener::kIdleKeeper);
  const Sleep sleep(bell, Listener::kIdleKeeper);
  bell.ring(Urgency::kUsual);
  EXPECT_TRUE(sleep.goes_on());
  bell.ring(Urgency::kUrgent);
  EXPECT_TRUE(sleep.ends());
}

TEST(Bell, WakesAKeeperForAnything) {
  Bell bell;
  bell.listen(Listener::kKeeper);
  const Sleep sleep(bell, Listener::kKeeper);
  bell.ring(Urgency::kUsual);
  EXPECT_TRUE(sleep.ends());
}

TEST(Bell, WakesTheOneWhoListensAndNotTheOneWhoDidBefore) {
  Bell bell;
  bell.listen(Listener::kKeeper);
  const Sleep keeper(bell, Listener::kKeeper);
  bell.listen(Listener::kHelper);
  const Sleep helper(bell, Listener::kHelper);
  bell.ring(Urgency::kUsual);
  EXPECT_TRUE(helper.ends());
  bell.ring(Urgency::kUrgent);  // nobody listens
  EXPECT_TRUE(keeper.goes_on());
  bell.listen(Listener::kKeeper);
  bell.ring(Urgency::kUsual);
  EXPECT_TRUE(keeper.ends());
}

TEST(Bell, DoesNotSleepWhenItHasRungAfterListen) {
  Bell bell;
  bell.listen(Listener::kKeeper);
  bell.ring(Urgency::kUsual);
  const auto start = Clock::now();
  bell.sleep(Listener::kKeeper, kLong);
  EXPECT_LT(Clock::now() - start, kLong / 2);
}

TEST(Bell, DoesNotSleepInReserveWhenItHasRungSinceTheTicket) {
  Bell bell;
  bell.listen(Listener::kHelper);
  const uint32_t ticket = bell.ticket();
  bell.ring(Urgency::kUsual);
  bell.listen(Listener::kHelper);  // looks as before, but for the count of rings
  const auto start = Clock::now();
  bell.sleep_since(ticket, Listener::kKeeper, kLong);
  EXPECT_LT(Clock::now() - start, kLong / 2);
}

// Two threads pass a number to and fro; each sleeps unless it finds the number raised after listen.
TEST(Bell, LosesNoWakeUp) {
  constexpr int kRounds = 20'000;
  const auto end = Clock::now() + 2s;
  Bell bells[2];
  std::atomic<int> number{0};
  std::atomic<bool> lost{false};
  const auto play = [&](int me) {
    for (int round = me; round < kRounds && !lost && Clock::now() < end; round += 2) {
      const auto listener = static_cast<Listener>(1 + round % 3);
      while (number.load(std::memory_order_relaxed) < round && !lost) {
        bells[me].listen(listener);
        if (number.load(std::memory_order_relaxed) >= round) break;
        const auto start = Clock::now();
        bells[me].sleep(listener, kLong / 2);
        if (Clock::now() - start > kLong / 4) lost = true;
      }
      bells[me].stop_listening();
      number.store(round + 1, std::memory_order_relaxed);
      bells[1 - me].ring(Urgency::kUrgent);
    }
    // The other one may wait for a round that we do not play any more.
    number = kRounds;
    bells[1 - me].ring(Urgency::kUrgent);
  };
  std::thread other = start_thread("other", [&] { play(1); });
  play(0);
  other.join();
  EXPECT_FALSE(lost);
}

}  // namespace
}  // namespace hvd
