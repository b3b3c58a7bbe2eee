// SPDX-License-Identifier: Apache-2.0
#include "transport/control/doorbell.h"

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
using Listener = Doorbell::Listener;
using Clock = std::chrono::steady_clock;

constexpr auto kLong = 20s;  // far longer than a sleep that the doorbell ends

// One sleep, which has begun when the constructor returns.
class Sleep {
 public:
  Sleep(Doorbell& doorbell, Listener listener)
      : thread_(start_thread("sleeper", [this, &doorbell, listener] {
          thread_id_ = static_cast<int>(::syscall(SYS_gettid));
          doorbell.sleep(listener, kLong);
          over_ = true;
        })) {
    while (!over_ && !in_kernel()) std::this_thread::yield();
  }
  ~Sleep() { thread_.join(); }

  // Whether the sleep ends within a short time.
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

TEST(Doorbell, WakesAnIdleEngineThreadOnlyForUrgentRings) {
  Doorbell doorbell;
  doorbell.listen(Listener::kIdleEngineThread);
  const Sleep sleep(doorbell, Listener::kIdleEngineThread);
  doorbell.ring(Urgency::kUsual);
  EXPECT_TRUE(sleep.goes_on());
  doorbell.ring(Urgency::kUrgent);
  EXPECT_TRUE(sleep.ends());
}

TEST(Doorbell, WakesABusyEngineThreadForAnyRing) {
  Doorbell doorbell;
  doorbell.listen(Listener::kEngineThread);
  const Sleep sleep(doorbell, Listener::kEngineThread);
  doorbell.ring(Urgency::kUsual);
  EXPECT_TRUE(sleep.ends());
}

TEST(Doorbell, WakesTheOneWhoListensAndNotTheOneWhoDidBefore) {
  Doorbell doorbell;
  doorbell.listen(Listener::kEngineThread);
  const Sleep engine_thread(doorbell, Listener::kEngineThread);
  doorbell.listen(Listener::kWaitingThread);
  const Sleep waiting_thread(doorbell, Listener::kWaitingThread);
  doorbell.ring(Urgency::kUsual);
  EXPECT_TRUE(waiting_thread.ends());
  doorbell.ring(Urgency::kUrgent);  // there is no listener
  EXPECT_TRUE(engine_thread.goes_on());
  doorbell.listen(Listener::kEngineThread);
  doorbell.ring(Urgency::kUsual);
  EXPECT_TRUE(engine_thread.ends());
}

TEST(Doorbell, DoesNotSleepWhenItHasRungAfterListen) {
  Doorbell doorbell;
  doorbell.listen(Listener::kEngineThread);
  doorbell.ring(Urgency::kUsual);
  const auto start = Clock::now();
  doorbell.sleep(Listener::kEngineThread, kLong);
  EXPECT_LT(Clock::now() - start, kLong / 2);
}

TEST(Doorbell, DoesNotSleepInReserveWhenItHasRungSinceTheTicket) {
  Doorbell doorbell;
  doorbell.listen(Listener::kWaitingThread);
  const uint32_t ticket = doorbell.ticket();
  doorbell.ring(Urgency::kUsual);
  doorbell.listen(Listener::kWaitingThread);  // the same word as before, except the ring count
  const auto start = Clock::now();
  doorbell.sleep_since(ticket, Listener::kEngineThread, kLong);
  EXPECT_LT(Clock::now() - start, kLong / 2);
}

// Two threads pass a number back and forth; each sleeps unless the number is raised after listen().
TEST(Doorbell, LosesNoWakeUp) {
  constexpr int kRounds = 20'000;
  const auto end = Clock::now() + 2s;
  Doorbell doorbells[2];
  std::atomic<int> number{0};
  std::atomic<bool> lost{false};
  const auto play = [&](int me) {
    for (int round = me; round < kRounds && !lost && Clock::now() < end; round += 2) {
      const auto listener = static_cast<Listener>(1 + round % 3);
      while (number.load(std::memory_order_relaxed) < round && !lost) {
        doorbells[me].listen(listener);
        if (number.load(std::memory_order_relaxed) >= round) break;
        const auto start = Clock::now();
        doorbells[me].sleep(listener, kLong / 2);
        if (Clock::now() - start > kLong / 4) lost = true;
      }
      doorbells[me].stop_listening();
      number.store(round + 1, std::memory_order_relaxed);
      doorbells[1 - me].ring(Urgency::kUrgent);
    }
    // The other thread may wait for a round that this one does not play any more.
    number = kRounds;
    doorbells[1 - me].ring(Urgency::kUrgent);
  };
  std::thread other = start_thread("other", [&] { play(1); });
  play(0);
  other.join();
  EXPECT_FALSE(lost);
}

}  // namespace
}  // namespace hvd
