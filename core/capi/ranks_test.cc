// SPDX-License-Identifier: Apache-2.0
// Jobs of real processes, through hvd.h and hvd.hpp. The checks of each rank are in
// testing/collectives_scenario.cc and testing/scenario_main.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "capi/testing/rank.h"

namespace scenario {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void expect_all_end_well(std::vector<Rank>& ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Rank::End end = ranks[rank].end();
    EXPECT_EQ(end.code, 0) << "rank " << rank;
    EXPECT_EQ(end.output, "ok\n") << "rank " << rank;
  }
}

class Jobs : public testing::TestWithParam<std::tuple<int, Placement>> {};

TEST_P(Jobs, DoEverythingThatRanksCanDoTogether) {
  const Store rendezvous;
  const auto [size, placement] = GetParam();
  auto ranks = rendezvous.start({"collectives"}, size, placement);
  expect_all_end_well(ranks);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Jobs,
                         testing::Combine(testing::Values(2, 3, 4, 8),
                                          testing::Values(Placement::kOneHost,
                                                          Placement::kManyHosts)),
                         [](const auto& job) {
                           return std::to_string(std::get<0>(job.param)) + "On" +
                                  to_string(std::get<1>(job.param));
                         });
INSTANTIATE_TEST_SUITE_P(Mixed, Jobs,
                         testing::Combine(testing::Values(4),
                                          testing::Values(Placement::kTwoHosts,
                                                          Placement::kNoMemory)),
                         [](const auto& job) { return to_string(std::get<1>(job.param)); });

TEST(Job, AcceptsSealedBytesOfItsOwnRanksAndOperationsOnly) {
  for (const Placement placement : {Placement::kOneHost, Placement::kManyHosts}) {
    const Store rendezvous;
    auto ranks = rendezvous.start({"seals"}, 3, placement);
    expect_all_end_well(ranks);
  }
}

TEST(Job, StartsAndEndsHundredsOfTimesAndLeavesNothing) {
  const Store rendezvous;
  auto on_one_host = rendezvous.start({"restart", HVD_RESTARTS}, 2, Placement::kOneHost);
  expect_all_end_well(on_one_host);
  const Store other;
  auto on_many_hosts =
      other.start({"restart", HVD_RESTARTS_BETWEEN_HOSTS}, 3, Placement::kManyHosts);
  expect_all_end_well(on_many_hosts);
}

TEST(Job, EndsWithItsProcessWithoutAShutdown) {
  const Store rendezvous;
  auto ranks = rendezvous.start({"exit"}, 3, Placement::kOneHost);
  for (Rank& rank : ranks) EXPECT_EQ(rank.line(), "ready");
  for (const Rank& rank : ranks) rank.send(SIGUSR1);
  expect_all_end_well(ranks);
}

TEST(Job, IsNotInheritedByForkedChildren) {
  const Store rendezvous;
  auto ranks = rendezvous.start({"fork"}, 2, Placement::kOneHost);
  expect_all_end_well(ranks);
}

TEST(Job, TracesTheProcessSetsOfItsRank) {
  const std::string path = testing::TempDir() + "hvd_ranks_test_timeline.json";
  const Store rendezvous;
  auto ranks = rendezvous.start({"trace"}, 3, Placement::kOneHost, {{"HOROVOD_TIMELINE", path}});
  expect_all_end_well(ranks);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\"of all\""), std::string::npos);
  EXPECT_NE(text.find("\"process set 1: of a set\""), std::string::npos);
  EXPECT_EQ(text.find("elsewhere"), std::string::npos) << "rank 0 is not in that set";
  std::filesystem::remove(path);
}

// The output of a rank that continues after another rank was lost: "lost <code> <time> <text>" and
// "again <size>".
struct Survivor {
  int code = -1;
  std::chrono::microseconds heard{};  // of the monotonic clock
  std::string text;
};

Survivor expect_survival(Rank& rank, int size) {
  Survivor survivor;
  std::istringstream line(rank.line());
  std::string word;
  int64_t heard = 0;
  line >> word >> survivor.code >> heard >> std::ws;
  std::getline(line, survivor.text);
  EXPECT_EQ(word, "lost");
  survivor.heard = std::chrono::microseconds(heard);
  EXPECT_EQ(rank.line(), "again " + std::to_string(size - 1));
  const Rank::End end = rank.end();
  EXPECT_EQ(end.output, "ok\n");
  EXPECT_EQ(end.code, 0);
  return survivor;
}

// Stops or kills one of `size` ranks while they work. Returns the time until the last survivor had
// detected it.
std::chrono::microseconds lose(int signal, int size, int victim, Placement placement,
                               const std::string& cause, const Settings& settings = {}) {
  const Store rendezvous;
  auto ranks = rendezvous.start({"lost", std::to_string(victim)}, size, placement, settings);
  for (Rank& rank : ranks) EXPECT_EQ(rank.line(), "ready");
  std::this_thread::sleep_for(20ms);
  const auto start = Clock::now().time_since_epoch();
  ranks[size_t(victim)].send(signal);
  std::chrono::microseconds longest{};
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const Survivor survivor = expect_survival(ranks[size_t(rank)], size);
    EXPECT_EQ(survivor.code, HVD_PEER_LOST) << survivor.text;
    EXPECT_NE(survivor.text.find("rank " + std::to_string(victim)), std::string::npos)
        << survivor.text;
    EXPECT_NE(survivor.text.find(cause), std::string::npos) << survivor.text;
    longest = std::max(
        longest, std::chrono::duration_cast<std::chrono::microseconds>(survivor.heard - start));
  }
  return longest;
}

TEST(Job, GoesOnWithoutARankThatDied) {
  std::vector<std::chrono::microseconds> times;
  for (int i = 0; i < 5; ++i) times.push_back(lose(SIGKILL, 4, i % 4, Placement::kOneHost, ""));
  std::sort(times.begin(), times.end());
  EXPECT_LT(times[2], 50ms);
  lose(SIGKILL, 3, 1, Placement::kManyHosts, "");
  lose(SIGKILL, 4, 0, Placement::kTwoHosts, "");
}

TEST(Job, GoesOnWithoutARankThatFroze) {
  const Settings soon = {{"HOROVOD_HEARTBEAT_TIMEOUT_SECONDS", "1"}};
  EXPECT_LT(lose(SIGSTOP, 3, 2, Placement::kOneHost, "frozen or unreachable", soon), 5s);
  EXPECT_LT(lose(SIGSTOP, 3, 0, Placement::kManyHosts, "frozen or unreachable", soon), 5s);
}

}  // namespace
}  // namespace scenario
