// SPDX-License-Identifier: Apache-2.0
// Every collective among processes. The other tests run ranks as threads of one process, which
// share more than real ranks do. The ranks run testing/rank_main.cc.
#include <chrono>
#include <vector>

#include "testing/assertions.h"
#include "transport/testing/rank_process.h"

namespace hvd {
namespace {

using testing::RankProcess;

struct Job {
  const char* name;
  std::vector<const char*> host_of;  // by rank; ranks of one host share memory, others use TCP
};

class Processes : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(
    As, Processes,
    ::testing::Values(Job{"TwoOnOneHost", {"a", "a"}}, Job{"ThreeOnOneHost", {"a", "a", "a"}},
                      Job{"FourOnOneHost", {"a", "a", "a", "a"}}, Job{"TwoHosts", {"a", "b"}},
                      Job{"ThreeHosts", {"a", "b", "c"}}, Job{"FourHosts", {"a", "b", "c", "d"}},
                      Job{"ThreeOnTwoHosts", {"a", "b", "a"}},
                      Job{"FourOnTwoHosts", {"a", "b", "b", "a"}}),
    [](const auto& job) { return job.param.name; });

TEST_P(Processes, RunEveryCollectiveAsTheReferenceDoes) {
  const std::vector<const char*>& host_of = GetParam().host_of;
  const auto size = static_cast<int>(host_of.size());
  const Secret secret = Secret::generate();
  RendezvousServerOptions options;
  options.bind = Endpoint::loopback();
  const auto rendezvous = RendezvousServer::start(secret, options);
  ASSERT_OK(rendezvous);
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < size; ++rank) {
    auto started = RankProcess::start_program(HVD_COLLECTIVES_RANK_PROGRAM, "conformance", rank,
                                              size, host_of[rank], secret, **rendezvous);
    ASSERT_OK(started);
    ranks.push_back(std::move(started).value());
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto said = ranks[rank].line(Deadline::after(std::chrono::seconds(55)));
    ASSERT_OK(said);
    EXPECT_THAT(*said, ::testing::MatchesRegex("ok [0-9]{3}")) << "rank " << rank;
    EXPECT_EQ(ranks[rank].wait(), 0) << "rank " << rank;
  }
}

}  // namespace
}  // namespace hvd
