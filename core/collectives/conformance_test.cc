// SPDX-License-Identifier: Apache-2.0
// Every allreduce over every transport: compared with the plain reference, and with a failure at
// every step of every rank. By default a fixed sample of the cases runs. HVD_CONFORMANCE=full runs
// all cases, which takes hours and needs a larger HVD_TEST_LIMIT_SECONDS.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/worlds.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::FaultyRun;
using testing::full_conformance;
using testing::run_ranks_with_faults;
using testing::soon;
using testing::TransportKind;
using testing::Values;

struct World {
  TransportKind kind;
  AllreduceAlgorithm algorithm;
  int ranks;
};

std::string name_of(const ::testing::TestParamInfo<World>& world) {
  return testing::to_string(world.param.kind) + "_" +
         std::string(to_string(world.param.algorithm)) + "_" + std::to_string(world.param.ranks);
}

// Whether the placement of the ranks allows the algorithm.
bool possible(const World& world) {
  const bool share_memory = testing::hosts_share_memory(world.kind, world.ranks);
  const bool through_memory = world.algorithm == AllreduceAlgorithm::kSharedMemory ||
                              world.algorithm == AllreduceAlgorithm::kTwoLevel;
  if (through_memory && !share_memory) return false;
  return AllreduceSelector::make(testing::topology_of(world.kind, world.ranks), share_memory,
                                 {.algorithm = world.algorithm}, offered_allreduce_algorithms())
      .is_ok();
}

std::vector<World> worlds(std::initializer_list<int> sizes) {
  std::vector<World> all;
  for (const TransportKind kind : testing::all_transport_kinds()) {
    for (const AllreduceAlgorithm algorithm : offered_allreduce_algorithms()) {
      for (const int ranks : sizes) {
        if (possible({kind, algorithm, ranks})) all.push_back({kind, algorithm, ranks});
      }
    }
  }
  return all;
}

// ---- results -------------------------------------------------------------------------------

struct Case {
  DType dtype;
  ReduceOp op;
  size_t count;
  double prescale;
  double postscale;

  Values input(int rank) const { return testing::random_values(dtype, count, 1000 * count + rank); }
};

// A hash that spreads its argument over all bits, so that a sample by it is unbiased.
uint64_t scrambled(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::vector<Case> cases_of(size_t count) {
  constexpr double kScales[][2] = {{1.0, 1.0}, {0.5, 1.0}, {0.25, 3.0}};
  std::vector<Case> cases;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const ReduceOp op :
         {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      for (const auto& [prescale, postscale] : kScales) {
        cases.push_back({static_cast<DType>(dtype), op, count, prescale, postscale});
      }
    }
  }
  return cases;
}

// The sample: one in 48 of the small cases, different ones in each world. Of the large cases one
// for 3 ranks, which need a fold, and one for 4, which need two rounds and have two ranks on each
// host of a mesh.
std::vector<Case> cases_for(const World& world) {
  const size_t n = world.ranks;
  constexpr size_t kLarge = (1 << 20) + 3;
  std::vector<Case> cases;
  uint64_t index = scrambled(world.ranks * 100 + static_cast<int>(world.algorithm) * 10 +
                             static_cast<int>(world.kind));
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{2}, n - 1, n, n + 1, size_t{1000}, kLarge}) {
    const std::vector<Case> all = cases_of(count);
    if (!full_conformance() && count == kLarge) {
      if (n == 3 || n == 4) cases.push_back(all[scrambled(++index) % all.size()]);
      continue;
    }
    std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
                 [&](const Case&) { return full_conformance() || scrambled(++index) % 48 == 0; });
  }
  return cases;
}

std::string describe(const Case& it) {
  return std::string(to_string(it.op)) + " of " + std::to_string(it.count) + " " +
         std::string(to_string(it.dtype)) + ", scaled by " + std::to_string(it.prescale) + " and " +
         std::to_string(it.postscale);
}

// Rank 0 compares with the reference. All cases share one communicator, so that the next operation
// detects bytes that an earlier one left behind.
Status run_cases(Transport& transport, AllreduceAlgorithm algorithm, const std::vector<Case>& cases,
                 std::vector<std::vector<size_t>>& digests) {
  Scratch scratch;
  for (const Case& it : cases) {
    HVD_TRY_ASSIGN(const Reduction reduction,
                   Reduction::make(it.op, it.dtype, transport.size(), it.prescale, it.postscale));
    Values data = it.input(transport.rank());
    HVD_TRY(run_allreduce({transport, scratch, soon()}, algorithm, data, reduction)
                .with_context(describe(it)));
    digests[transport.rank()].push_back(
        std::hash<std::string_view>()({reinterpret_cast<const char*>(data.data()), data.size()}));
    if (transport.rank() != 0) continue;
    std::vector<Values> inputs;
    for (int rank = 0; rank < transport.size(); ++rank) inputs.push_back(it.input(rank));
    const Values expected =
        testing::reference_reduce(it.op, it.dtype, inputs, it.prescale, it.postscale);
    EXPECT_TRUE(testing::near(it.dtype, data, expected, transport.size())) << describe(it);
  }
  return Status::ok();
}

class AllreduceConformance : public ::testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AllreduceConformance,
                         ::testing::ValuesIn(worlds({1, 2, 3, 4, 5, 7, 8, 16})), name_of);

TEST_P(AllreduceConformance, GivesTheReferencesResultAndTheSameBitsOnEveryRank) {
  const auto [kind, algorithm, ranks] = GetParam();
  const std::vector<Case> cases = cases_for(GetParam());
  std::vector<std::vector<size_t>> digests(ranks);
  testing::run_ranks(kind, ranks, [&, algorithm = algorithm](Transport& transport) {
    return run_cases(transport, algorithm, cases, digests);
  });
  for (const auto& of_rank : digests) {
    ASSERT_EQ(of_rank.size(), digests[0].size());
    for (size_t i = 0; i < of_rank.size(); ++i) {
      EXPECT_EQ(of_rank[i], digests[0][i]) << describe(cases[i]);
    }
  }
}

// ---- failures ------------------------------------------------------------------------------

Status reduce_a_little(Transport& transport, AllreduceAlgorithm algorithm, Deadline deadline) {
  HVD_TRY_ASSIGN(const Reduction sum,
                 Reduction::make(ReduceOp::kSum, DType::kFloat32, transport.size()));
  std::vector<float> data(11, 1.0F);
  Scratch scratch;
  return run_allreduce({transport, scratch, deadline}, algorithm,
                       std::as_writable_bytes(std::span(data)), sum);
}

// A rank may have its result before another rank fails. Its next call then reports the failure;
// here that call waits for a byte that no rank sends.
Status reduce_and_listen(Transport& transport, AllreduceAlgorithm algorithm, Deadline deadline) {
  HVD_TRY(reduce_a_little(transport, algorithm, deadline));
  std::byte never{};
  return transport.recv((transport.rank() + 1) % transport.size(), {&never, 1}, soon());
}

class AllreduceFailure : public ::testing::TestWithParam<World> {
 protected:
  FaultyRun run_calm() const {
    const auto [kind, algorithm, ranks] = GetParam();
    return run_ranks_with_faults(kind, ranks, {}, [algorithm = algorithm](Transport& transport) {
      return reduce_a_little(transport, algorithm, soon());
    });
  }
  FaultyRun run_with(const Fault& fault, Deadline deadline) const {
    const auto [kind, algorithm, ranks] = GetParam();
    return run_ranks_with_faults(kind, ranks, {fault},
                                 [&, algorithm = algorithm](Transport& transport) {
                                   return reduce_and_listen(transport, algorithm, deadline);
                                 });
  }
  // Threads start quickly, so with them every step is tested. With other transports every fourth
  // step of each rank is tested, or every step in full mode.
  size_t stride() const {
    return GetParam().kind == TransportKind::kInproc || full_conformance() ? 1 : 4;
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, AllreduceFailure, ::testing::ValuesIn(worlds({3, 4})), name_of);

TEST_P(AllreduceFailure, ADeathAtAnyStepIsKnownToEveryRank) {
  const FaultyRun calm = run_calm();
  for (const Status& outcome : calm.outcomes) ASSERT_OK(outcome);
  for (int victim = 0; victim < GetParam().ranks; ++victim) {
    for (size_t step = victim % stride(); step < calm.steps[victim]; step += stride()) {
      const FaultyRun run = run_with({.rank = victim, .step = step}, soon());
      for (int rank = 0; rank < GetParam().ranks; ++rank) {
        const Status& outcome = run.outcomes[rank];
        EXPECT_TRUE(outcome.code() == StatusCode::kAborted ||
                    (rank != victim && outcome.lost_rank() == victim))
            << "rank " << rank << " when " << victim << " dies at step " << step << ": "
            << outcome.to_string();
      }
    }
  }
}

TEST_P(AllreduceFailure, ALostMessageAtAnyStepFailsEveryRank) {
  const FaultyRun calm = run_calm();
  for (int victim = 0; victim < GetParam().ranks; ++victim) {
    const std::vector<size_t>& sends = calm.send_steps[victim];
    for (size_t i = victim % stride(); i < sends.size(); i += stride()) {
      const Fault lost{.rank = victim, .step = sends[i], .kind = Fault::Kind::kDrop};
      const FaultyRun run = run_with(lost, Deadline::after(20ms));
      int timeouts = 0;
      for (const Status& outcome : run.outcomes) {
        EXPECT_FALSE(outcome.is_ok()) << "send at step " << sends[i] << " of " << victim;
        if (outcome.code() == StatusCode::kTimeout) ++timeouts;
      }
      EXPECT_GE(timeouts, 1);
    }
  }
}

TEST_P(AllreduceFailure, ALateRankIsWaitedFor) {
  const FaultyRun calm = run_calm();
  const auto [kind, algorithm, ranks] = GetParam();
  const Fault late{.rank = 1, .step = calm.steps[1] / 2, .kind = Fault::Kind::kDelay, .delay = 3ms};
  const FaultyRun run =
      run_ranks_with_faults(kind, ranks, {late}, [algorithm = algorithm](Transport& transport) {
        return reduce_a_little(transport, algorithm, soon());
      });
  for (const Status& outcome : run.outcomes) EXPECT_OK(outcome);
}

}  // namespace
}  // namespace hvd
