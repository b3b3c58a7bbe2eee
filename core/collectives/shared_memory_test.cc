// SPDX-License-Identifier: Apache-2.0
#include "collectives/shared_memory.h"

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/slices.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/shared_buffer_allreduce.h"
#include "testing/assertions.h"
#include "transport/shm/testing.h"

namespace hvd {
namespace {

using namespace std::chrono_literals;
using testing::random_values;
using testing::run_host;
using testing::Values;

Deadline soon() { return Deadline::after(30s); }

std::vector<Values> inputs_of(int ranks, DType dtype, size_t count, uint64_t seed = 1) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_values(dtype, count, seed * 100 + rank));
  }
  return inputs;
}

TEST(Slices, CoverEveryByteOnceAndNeverShareALine) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{65}, size_t{1000}}) {
    for (const int ranks : {1, 2, 3, 7, 16}) {
      const Slices slices(bytes, ranks);
      EXPECT_EQ(slices.begin(0), 0u);
      EXPECT_EQ(slices.begin(ranks), bytes);
      for (int i = 0; i < ranks; ++i) {
        EXPECT_TRUE(slices.begin(i) % 64 == 0 || slices.size(i) == 0);
      }
    }
  }
}

class SharedMemory : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SharedMemory, ::testing::Values(1, 2, 3, 4, 5, 8));

// Element counts around the limits of one phase, of a chunk and of the depth of the pipeline.
const std::vector<size_t> kCounts = {1, 2, 1000, 2048, 2049, 4097, 70'001, 1'000'003};

TEST_P(SharedMemory, AllreduceOfEverySizeIsTheSumOfAllRanks) {
  const int n = GetParam();
  std::vector<std::vector<Values>> inputs;
  std::vector<Values> expected;
  for (const size_t count : kCounts) {
    inputs.push_back(inputs_of(n, DType::kFloat32, count));
    expected.push_back(
        testing::reference_reduce(ReduceOp::kAverage, DType::kFloat32, inputs.back()));
  }
  run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
    const auto reduction = Reduction::make(ReduceOp::kAverage, DType::kFloat32, n);
    ASSERT_OK(reduction);
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < kCounts.size(); ++i) {
        Values data = inputs[i][links.arena().rank()];
        ASSERT_OK(shared_memory_allreduce(links.arena(), data, *reduction, soon()));
        ASSERT_TRUE(testing::near(DType::kFloat32, data, expected[i], n)) << kCounts[i];
      }
    }
  });
}

TEST_P(SharedMemory, EveryDtypeAndOpMatchesTheReference) {
  const int n = GetParam();
  constexpr size_t kCount = 5'001;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    const auto inputs = inputs_of(n, dtype, kCount);
    const std::vector<ReduceOp> ops = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kProduct};
    std::vector<Values> expected;
    for (const ReduceOp op : ops) {
      expected.push_back(testing::reference_reduce(op, dtype, inputs, 2.0, 0.5));
    }
    run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
      for (size_t i = 0; i < ops.size(); ++i) {
        const auto reduction = Reduction::make(ops[i], dtype, n, 2.0, 0.5);
        ASSERT_OK(reduction);
        Values data = inputs[links.arena().rank()];
        ASSERT_OK(shared_memory_allreduce(links.arena(), data, *reduction, soon()));
        EXPECT_TRUE(testing::near(dtype, data, expected[i], n))
            << to_string(dtype) << " " << to_string(ops[i]);
      }
    });
  }
}

TEST_P(SharedMemory, BitsDoNotDependOnThePlaceOfAnElementNorOnTheSizeOfTheOperation) {
  const int n = GetParam();
  run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
    const auto reduction = Reduction::make(ReduceOp::kSum, DType::kFloat32, n);
    ASSERT_OK(reduction);
    // The same value everywhere, whose sum rounds differently in another order.
    const float mine = 0.1F + 1e6F * static_cast<float>(links.arena().rank() % 3);
    float expected = 0;
    for (const size_t count : {1, 1000, 5000, 300'000}) {
      std::vector<float> values(count, mine);
      ASSERT_OK(shared_memory_allreduce(links.arena(), std::as_writable_bytes(std::span(values)),
                                        *reduction, soon()));
      if (count == 1) expected = values[0];
      for (const float value : values) ASSERT_EQ(value, expected);
    }
  });
}

TEST_P(SharedMemory, ASharedBufferIsReducedWhereItLies) {
  const int n = GetParam();
  constexpr size_t kMost = 200'001;
  run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
    const auto reduction = Reduction::make(ReduceOp::kAverage, DType::kFloat32, n);
    ASSERT_OK(reduction);
    auto buffer =
        make_shared_buffer(links.arena(), kMost * sizeof(float), SegmentKind::kHeap, soon());
    ASSERT_OK(buffer);
    for (const size_t count : {size_t{0}, size_t{17}, size_t{5000}, kMost}) {
      const auto inputs = inputs_of(n, DType::kFloat32, count, count);
      const Values& mine = inputs[links.arena().rank()];
      copy_bytes((*buffer)->mine().data(), mine.data(), mine.size());
      ASSERT_OK(shared_buffer_allreduce(links.arena(), **buffer, mine.size(), *reduction, soon()));
      EXPECT_TRUE(
          testing::near(DType::kFloat32, (*buffer)->mine().first(mine.size()),
                        testing::reference_reduce(ReduceOp::kAverage, DType::kFloat32, inputs), n));
    }
  });
}

TEST_P(SharedMemory, MoversBringEveryPartToItsPlace) {
  const int n = GetParam();
  run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
    Arena& arena = links.arena();
    const int me = arena.rank();
    for (const size_t scale : {0, 1, 700, 90'000}) {
      // Rank r has r·scale bytes (so rank 0 has none) for an allgather.
      std::vector<size_t> bytes_of(n);
      for (int rank = 0; rank < n; ++rank) bytes_of[rank] = rank * scale;
      const auto part = [&](int rank) { return Values(bytes_of[rank], std::byte(rank + 1)); };
      Values expected;
      for (int rank = 0; rank < n; ++rank) {
        const Values one = part(rank);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      Values out(expected.size());
      ASSERT_OK(shared_memory_allgather(arena, part(me), out, bytes_of, soon()));
      EXPECT_EQ(out, expected);

      // Rank r sends (r + peer)·scale bytes of its number to each peer.
      std::vector<size_t> counts(n);
      for (int peer = 0; peer < n; ++peer) counts[peer] = (me + peer) * scale;
      const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
      Values received(total);
      ASSERT_OK(shared_memory_alltoall(arena, Values(total, std::byte(me + 1)), counts, received,
                                       counts, soon()));
      Values wanted;
      for (int peer = 0; peer < n; ++peer) {
        wanted.insert(wanted.end(), counts[peer], std::byte(peer + 1));
      }
      EXPECT_EQ(received, wanted);

      for (int root = 0; root < n; ++root) {
        Values data(scale * 7, std::byte(me == root ? root + 1 : 0));
        ASSERT_OK(shared_memory_broadcast(arena, data, root, soon()));
        EXPECT_EQ(data, Values(scale * 7, std::byte(root + 1)));
      }
      ASSERT_OK(shared_memory_barrier(arena, soon()));
    }
  });
}

TEST_P(SharedMemory, ReducescatterGivesEachRankItsPartAndLeavesTheInput) {
  const int n = GetParam();
  for (const size_t scale : {size_t{1}, size_t{20'001}}) {
    std::vector<size_t> bytes_of(n);
    for (int rank = 0; rank < n; ++rank) bytes_of[rank] = (n - 1 - rank) * scale * 2;
    const size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), size_t{0});
    const auto inputs = inputs_of(n, DType::kFloat16, total / 2, scale);
    const auto untouched = inputs;
    const Values all =
        testing::reference_reduce(ReduceOp::kAverage, DType::kFloat16, inputs, 0.5, 2.0);
    run_host(n, SegmentKind::kHeap, [&](ShmGroup& links, Health&) {
      const int me = links.arena().rank();
      const auto reduction = Reduction::make(ReduceOp::kAverage, DType::kFloat16, n, 0.5, 2.0);
      ASSERT_OK(reduction);
      Values out(bytes_of[me]);
      ASSERT_OK(shared_memory_reducescatter(links.arena(), inputs[me], out, bytes_of, *reduction,
                                            soon()));
      const size_t begin = std::accumulate(bytes_of.begin(), bytes_of.begin() + me, size_t{0});
      EXPECT_TRUE(
          testing::near(DType::kFloat16, out, ConstBytes(all).subspan(begin, bytes_of[me]), n));
    });
    EXPECT_EQ(inputs, untouched);
  }
}

}  // namespace
}  // namespace hvd
