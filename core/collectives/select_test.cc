// SPDX-License-Identifier: Apache-2.0
#include "collectives/select.h"

#include <cmath>
#include <string>

#include "base/config.h"
#include "collectives/calibrate.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using enum AllreduceAlgorithm;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr AllreduceAlgorithm kAll[] = {kSharedMemory, kRecursiveDoubling, kRing, kHalvingDoubling,
                                       kTwoLevel};

// `hosts` hosts with `each` ranks, numbered host by host.
Topology cluster(int hosts, int each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * each; ++rank) host_of.push_back(rank / each);
  return Topology(host_of);
}

Result<AllreduceAlgorithm> select(size_t bytes, const Topology& topology,
                                  const AllreduceOptions& options = {}, bool share_memory = false) {
  HVD_TRY_ASSIGN(const AllreduceSelector selector,
                 AllreduceSelector::make(topology, share_memory, options, kAll));
  return selector.choose(bytes);
}

TEST(Select, BetweenHostsSmallDataTakesFewRoundsAndLargeDataLittleTraffic) {
  for (const int hosts : {2, 3, 4, 7, 64}) {
    EXPECT_EQ(*select(4, cluster(hosts, 1)), kRecursiveDoubling) << hosts;
    EXPECT_THAT(*select(64 << 20, cluster(hosts, 1)), AnyOf(kRing, kHalvingDoubling)) << hosts;
  }
  // The 126 latencies of a ring are expensive at 1 MiB. A fold sends the whole buffer twice more
  // and never pays for large data.
  EXPECT_EQ(*select(1 << 20, cluster(64, 1)), kHalvingDoubling);
  EXPECT_EQ(*select(64 << 20, cluster(3, 1)), kRing);
}

TEST(Select, TheModelDecides) {
  AllreduceOptions far;
  far.model.between_hosts = {5000.0, 12500.0};
  EXPECT_EQ(*select(64 << 10, cluster(8, 1), far), kRecursiveDoubling);
  AllreduceOptions narrow;
  narrow.model.between_hosts = {1.0, 1.0};
  EXPECT_NE(*select(64 << 10, cluster(8, 1), narrow), kRecursiveDoubling);
}

TEST(Select, HostsWithSeveralRanksTakeTwoLevels) {
  EXPECT_EQ(*select(64 << 20, cluster(2, 4), {}, /*share_memory=*/true), kTwoLevel);
  EXPECT_EQ(*select(4, cluster(4, 8), {}, true), kTwoLevel);
  EXPECT_NE(*select(4, cluster(4, 8), {}, false), kTwoLevel);
}

TEST(Select, OneHostTakesSharedMemoryAtEverySizeIfThereIsAny) {
  for (const size_t bytes : {0, 4, 1 << 20, 1 << 30}) {
    EXPECT_EQ(*select(bytes, cluster(1, 4), {}, /*share_memory=*/true), kSharedMemory);
    EXPECT_EQ(*select(bytes, cluster(1, 4), {.deterministic = true}, true), kSharedMemory);
    EXPECT_NE(*select(bytes, cluster(1, 4), {}, false), kSharedMemory);
    EXPECT_NE(*select(bytes, cluster(2, 4), {}, true), kSharedMemory);
  }
}

TEST(Select, DeterministicModeComparesOnlyWhatGivesTheSameBits) {
  const AllreduceOptions options{.deterministic = true};
  for (size_t bytes = 1; bytes <= size_t{1} << 30; bytes *= 2) {
    for (const int hosts : {2, 3, 64}) {
      EXPECT_THAT(*select(bytes, cluster(hosts, 2), options),
                  AnyOf(kRecursiveDoubling, kHalvingDoubling));
      EXPECT_EQ(*select(bytes, cluster(hosts, 2), options, /*share_memory=*/true), kTwoLevel);
    }
  }
}

TEST(Select, AnExplicitChoiceIsObeyedOrRefusedWithAReason) {
  EXPECT_EQ(*select(4, cluster(4, 1), {.algorithm = kRing}), kRing);
  EXPECT_EQ(*select(4, cluster(1, 4), {.algorithm = kRing}, true), kRing);
  EXPECT_OK(select(4, cluster(1, 1), {.algorithm = kTwoLevel}));

  const auto two_level = select(4, cluster(4, 1), {.algorithm = kTwoLevel});
  EXPECT_CODE(StatusCode::kPrecondition, two_level);
  EXPECT_THAT(two_level.status().message(), HasSubstr("4 ranks on 4 host(s)"));
  const auto no_memory = select(4, cluster(1, 4), {.algorithm = kSharedMemory}, false);
  EXPECT_CODE(StatusCode::kPrecondition, no_memory);
  EXPECT_THAT(no_memory.status().message(), HasSubstr("without shared memory"));
  const auto ring = select(4, cluster(4, 1), {.algorithm = kRing, .deterministic = true});
  EXPECT_CODE(StatusCode::kPrecondition, ring);
  EXPECT_THAT(ring.status().message(), HasSubstr("HOROVOD_DETERMINISTIC"));
}

TEST(Select, NamesAreReadBackAndUnknownOnesAnsweredWithTheKnown) {
  for (const auto algorithm : kAll) {
    const std::string name(to_string(algorithm));
    EXPECT_EQ(*parse_allreduce_algorithm(name), algorithm);
    EXPECT_OK(Config::from([&](const char* variable) {
      return variable == std::string_view("HOROVOD_ALLREDUCE_ALGORITHM") ? name.c_str() : nullptr;
    }));
  }
  const auto wrong = parse_allreduce_algorithm("tree");
  EXPECT_CODE(StatusCode::kInvalidArgument, wrong);
  EXPECT_THAT(wrong.status().message(), HasSubstr("\"tree\" is unknown"));
  EXPECT_THAT(wrong.status().message(),
              HasSubstr("auto, shared_memory, recursive_doubling, ring, halving_doubling, "
                        "two_level"));
}

TEST(Calibrate, GivesTheSamePositiveFiguresOnEveryRank) {
  for (const auto kind : testing::all_transport_kinds()) {
    for (const int n : {1, 2, 5}) {
      std::vector<CostModel> models(n);
      testing::run_ranks(kind, n, [&](Transport& transport) -> Status {
        HVD_TRY_ASSIGN(models[transport.rank()],
                       calibrate(transport, Deadline::after(std::chrono::seconds(20))));
        return Status::ok();
      });
      for (const CostModel& model : models) {
        const auto figures = [](const CostModel& m) {
          return std::vector<double>{m.between_hosts.latency_us, m.between_hosts.bytes_per_us,
                                     m.within_host.latency_us, m.within_host.bytes_per_us,
                                     m.combine_bytes_per_us};
        };
        EXPECT_EQ(figures(model), figures(models[0]));
        for (const double figure : figures(model)) {
          EXPECT_TRUE(std::isfinite(figure) && figure > 0) << figure;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hvd
