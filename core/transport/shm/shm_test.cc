// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <string>

#include "testing/assertions.h"
#include "transport/shm/testing.h"
#include "transport/testing/shared_buffer.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::LifelineThread;
using testing::run_host;

Deadline soon() { return Deadline::after(20s); }

// Whether a segment still has a name, which would outlive its processes.
bool has_name(const std::string& descriptor) {
  const std::string token = descriptor.substr(descriptor.rfind(':') + 1);
  return access(("/dev/shm/horovod-" + token).c_str(), F_OK) == 0;
}

bool kernel_lacks_populate() {
  constexpr int kPopulateWrite = 23;  // since Linux 5.14
  return madvise(nullptr, 0, kPopulateWrite) != 0;
}

class EverySegment : public ::testing::TestWithParam<SegmentKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EverySegment,
                         ::testing::Values(SegmentKind::kMemfd, SegmentKind::kNamed,
                                           SegmentKind::kHeap));

TEST_P(EverySegment, WhatOneWritesTheOtherReadsAndNothingIsLeft) {
  auto made = Segment::create(GetParam(), 10'000);
  ASSERT_OK(made);
  auto attached = Segment::attach((*made)->descriptor());
  ASSERT_OK(attached);
  EXPECT_EQ(has_name((*made)->descriptor()), GetParam() == SegmentKind::kNamed);
  (*made)->forget_name();
  EXPECT_FALSE(has_name((*made)->descriptor()));
  EXPECT_OK(Segment::populate((*made)->memory()));
  (*made)->memory()[9'999] = std::byte{7};
  EXPECT_EQ((*attached)->memory()[9'999], std::byte{7});
  EXPECT_EQ((*attached)->memory().size(), 10'000u);
}

TEST(Segment, AWrongDescriptorIsAnErrorAndNotOtherMemory) {
  auto made = Segment::create(SegmentKind::kMemfd, 100);
  ASSERT_OK(made);
  std::string wrong = (*made)->descriptor();
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_CODE(StatusCode::kUnavailable, Segment::attach(wrong));
  EXPECT_CODE(StatusCode::kInternal, Segment::attach("nonsense"));
  EXPECT_CODE(StatusCode::kUnavailable,
              Segment::attach("named:0:0:100:00000000000000000000000000000000"));
}

TEST(Segment, PopulatingWithoutRoomIsAnErrorAndNoSignal) {
  if (kernel_lacks_populate()) GTEST_SKIP() << "this kernel cannot populate memory (before 5.14)";
  constexpr size_t kPage = 4096;
  const int fd = memfd_create("one page", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  void* const address = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(address, MAP_FAILED);
  const Bytes memory(static_cast<std::byte*>(address), 2 * kPage);
  EXPECT_OK(Segment::populate(memory.first(kPage)));
  const Status beyond = Segment::populate(memory);
  EXPECT_CODE(StatusCode::kUnavailable, beyond);
  EXPECT_THAT(beyond.message(), ::testing::HasSubstr("no room for 8192 bytes of shared memory"));
  munmap(address, 2 * kPage);
  close(fd);
}

TEST(Segment, ANamedFileOfADeadCreatorIsUnlinkedByTheNextOne) {
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto made = Segment::create(SegmentKind::kNamed, 100);
    (void)!write(channel[1], (*made)->descriptor().data(), (*made)->descriptor().size());
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  char text[200] = {};
  ASSERT_GT(read(channel[0], text, sizeof(text) - 1), 0);
  close(channel[0]);
  close(channel[1]);
  ASSERT_TRUE(has_name(text));
  auto next = Segment::create(SegmentKind::kNamed, 100);
  ASSERT_OK(next);
  EXPECT_FALSE(has_name(text));
  EXPECT_TRUE(has_name((*next)->descriptor()));
}

TEST(Arena, SlotsCarryEveryTurnWhateverTheSkewOfTheRanks) {
  constexpr int kRanks = 3;
  constexpr int kTurns = 2'000;
  run_host(kRanks, SegmentKind::kHeap, [](ShmGroup& links, Health&) {
    Arena& arena = links.arena();
    std::minstd_rand random(arena.rank());
    for (int i = 0; i < kTurns; ++i) {
      const uint64_t turn = arena.begin_turns(1);
      ASSERT_OK(arena.claim(turn, soon()));
      const uint64_t mine = turn * 10 + arena.rank();
      std::memcpy(arena.slot(arena.rank(), turn), &mine, sizeof(mine));
      arena.raise(ArenaStage::kFilled, turn);
      for (int peer = 0; peer < kRanks; ++peer) {
        ASSERT_OK(arena.wait(peer, ArenaStage::kFilled, turn, soon()));
        if (random() % 100 == 0) std::this_thread::yield();
        uint64_t theirs = 0;
        std::memcpy(&theirs, arena.slot(peer, turn), sizeof(theirs));
        ASSERT_EQ(theirs, turn * 10 + peer);
      }
    }
  });
}

TEST(Arena, AWaitForASleepingRankEndsAtTheDeadlineOnAllRanks) {
  run_host(3, SegmentKind::kHeap, [](ShmGroup& links, Health& health) {
    Arena& arena = links.arena();
    const uint64_t turn = arena.begin_turns(1);
    if (arena.rank() == 0) return;  // leaves: the other ranks must not wait without end
    const Status status = arena.wait_all(ArenaStage::kFilled, turn, Deadline::after(50ms));
    EXPECT_FALSE(status.is_ok());
    EXPECT_TRUE(health.failed());
    if (status.code() == StatusCode::kPeerLost) {
      EXPECT_EQ(status.lost_rank(), 0);
    }
  });
}

TEST(Arena, AFailureElsewhereEndsTheWaitsOfAllRanksOfTheHost) {
  run_host(3, SegmentKind::kHeap, [](ShmGroup& links, Health& health) {
    Arena& arena = links.arena();
    const uint64_t turn = arena.begin_turns(1);
    if (arena.rank() == 0) health.fail(peer_lost(17, "host b: connection reset"));
    const Status status = arena.wait_all(ArenaStage::kFilled, turn, soon());
    EXPECT_EQ(status.lost_rank(), 17) << status.to_string();
    EXPECT_EQ(status.message(), "rank 17: host b: connection reset");
    // Stay until the other ranks have seen the failure.
    (void)arena.wait_all(ArenaStage::kReduced, turn, Deadline::after(100ms));
  });
}

TEST(SharedBuffer, IsTheSameMemoryForAll) {
  run_host(4, SegmentKind::kHeap, [](ShmGroup& links, Health&) {
    Arena& arena = links.arena();
    auto buffer = make_shared_buffer(arena, 100'000, SegmentKind::kMemfd, soon());
    ASSERT_OK(buffer);
    ASSERT_EQ((*buffer)->mine().size(), 100'000u);
    (*buffer)->mine()[99'999] = static_cast<std::byte>(arena.rank() + 1);
    const uint64_t turn = arena.begin_turns(1);
    arena.raise(ArenaStage::kFilled, turn);
    ASSERT_OK(arena.wait_all(ArenaStage::kFilled, turn, soon()));
    for (int peer = 0; peer < 4; ++peer) {
      EXPECT_EQ((*buffer)->part(peer)[99'999], static_cast<std::byte>(peer + 1));
    }
    arena.raise(ArenaStage::kReduced, turn);
    ASSERT_OK(arena.wait_all(ArenaStage::kReduced, turn, soon()));
  });
}

TEST(Pipe, BytesArriveInOrderInPiecesOfAnySize) {
  constexpr size_t kTotal = 3 << 20;
  run_host(2, SegmentKind::kHeap, [](ShmGroup& links, Health&) {
    std::minstd_rand random(1);
    const auto value = [](size_t at) { return static_cast<std::byte>(at * 31 >> 3); };
    std::vector<std::byte> block(200'000);
    size_t done = 0;
    while (done < kTotal) {
      const size_t want = std::min<size_t>(random() % block.size() + 1, kTotal - done);
      if (links.arena().rank() == 0) {
        for (size_t i = 0; i < want; ++i) block[i] = value(done + i);
        size_t sent = 0;
        while (sent < want) {
          sent += *links.out(1).write_some(ConstBytes(block).subspan(sent, want - sent));
          if (sent < want) links.out(1).sleep(1ms);
        }
        done += want;
      } else {
        const size_t got = *links.in(0).read_some(Bytes(block).first(want));
        for (size_t i = 0; i < got; ++i) ASSERT_EQ(block[i], value(done + i)) << done + i;
        if (got == 0) links.in(0).sleep(1ms);
        done += got;
      }
    }
  });
}

#if !defined(HVD_THREAD_SANITIZER)
TEST(Arena, ARankThatEndsBecauseOfALossElsewhereIsNotTheOneThatWasLost) {
  auto made = Segment::create(SegmentKind::kMemfd, ShmGroup::bytes_needed(2));
  ASSERT_OK(made);
  const auto run = [&](int rank, auto body) {
    LifelineThread lifelines;
    Health health;
    auto segment = Segment::attach((*made)->descriptor());
    HVD_CHECK(segment.is_ok());
    ShmGroup links(std::move(*segment), rank, {0, 1}, lifelines.lifelines(), health);
    HVD_CHECK(links.arena().open(soon()).is_ok());
    body(links.arena(), health);
  };
  const pid_t child = fork();
  if (child == 0) {
    run(0, [](Arena&, Health& health) {
      health.fail(peer_lost(7, "connection reset"));
      raise(SIGKILL);
    });
  }
  run(1, [](Arena& arena, Health&) {
    const Status waited = arena.wait(0, ArenaStage::kFilled, 100, soon());
    EXPECT_EQ(waited.message(), "rank 7: connection reset");
  });
  waitpid(child, nullptr, 0);
}

// Kills a process of 1 GiB. Returns the time until a waiting rank has seen its death.
std::chrono::steady_clock::duration kill_a_large_process() {
  constexpr size_t kVictimBytes = size_t{1} << 30;
  auto segment = Segment::create(SegmentKind::kMemfd, ShmGroup::bytes_needed(2));
  EXPECT_OK(segment);
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const std::string descriptor = (*segment)->descriptor();
  const pid_t parent = getpid();
  const pid_t victim = fork();
  if (victim == 0) {
    LifelineThread lifelines;
    Health health;
    auto mine = Segment::attach(descriptor);
    if (!mine.is_ok() || getppid() != parent) _exit(1);
    ShmGroup links(std::move(*mine), 1, {4, 9}, lifelines.lifelines(), health);
    void* large =
        mmap(nullptr, kVictimBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(large, 1, kVictimBytes);
    (void)links.arena().open(soon());
    (void)!write(ready[1], "x", 1);
    while (true) pause();
  }
  LifelineThread lifelines;
  Health health;
  ShmGroup links(std::move(*segment), 0, {4, 9}, lifelines.lifelines(), health);
  EXPECT_OK(links.arena().open(Deadline::after(60s)));
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  std::chrono::steady_clock::time_point killed;
  std::thread killer([&] {
    std::this_thread::sleep_for(20ms);
    killed = std::chrono::steady_clock::now();
    kill(victim, SIGKILL);
  });
  const Status status = links.arena().wait_all(ArenaStage::kFilled, 99, soon());
  const auto seen = std::chrono::steady_clock::now();
  killer.join();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.to_string();
  EXPECT_EQ(status.lost_rank(), 9);
  waitpid(victim, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  return seen - killed;
}

TEST(Lifeline, SigkillOfALargeProcessIsSeenWithinMilliseconds) {
  // The best of five: the machine may be busy.
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5 && best >= 20ms; ++i) best = std::min(best, kill_a_large_process());
  EXPECT_LT(best, 20ms);
}
#endif

}  // namespace
}  // namespace hvd
