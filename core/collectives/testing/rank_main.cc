// SPDX-License-Identifier: Apache-2.0
// One rank of a job as a process: runs a sample of every collective, with every algorithm that the
// placement allows in turn, and compares with the reference. rank_arguments.h in transport/testing
// describes the command line. Prints "ok" and the number of compared results, or the error.
#include <fmt/format.h>

#include <iostream>
#include <numeric>

#include "collectives/adasum/adasum.h"
#include "collectives/allgather/allgather.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/alltoall/alltoall.h"
#include "collectives/barrier/barrier.h"
#include "collectives/blocks.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/message_cost.h"
#include "collectives/reducescatter/reducescatter.h"
#include "collectives/testing/reference.h"
#include "collectives/testing/worlds.h"
#include "transport/testing/rank_arguments.h"

namespace hvd::testing {
namespace {

class Rank {
 public:
  explicit Rank(Transport& transport) : transport_(transport) {}

  int compared() const { return compared_; }

  Status run() {
    HVD_TRY(allreduces());
    HVD_TRY(reducescatters());
    HVD_TRY(adasums());
    HVD_TRY(broadcasts());
    HVD_TRY(allgathers());
    HVD_TRY(alltoalls());
    return barrier(context());
  }

 private:
  CollectiveContext context() { return {transport_, scratch_, soon()}; }

  Status expect(const ::testing::AssertionResult& good, const std::string& what) {
    ++compared_;
    if (good) return Status::ok();
    return internal_error(fmt::format("{}: {}", what, good.message()));
  }
  Status expect_equal(ConstBytes actual, ConstBytes expected, const std::string& what) {
    return expect(same(DType::kUint8, actual, expected), what);
  }

  // One reduction. reductions() makes one for every dtype and count, with changing ops and factors.
  struct Task {
    DType dtype;
    ReduceOp op;
    size_t count;
    double prescale;
    double postscale;
  };
  static std::vector<Task> reductions(std::initializer_list<size_t> counts) {
    constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                 ReduceOp::kProduct};
    constexpr double kScales[][2] = {{1.0, 1.0}, {0.5, 1.0}, {0.25, 3.0}};
    std::vector<Task> all;
    for (const size_t count : counts) {
      for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
        const auto& [prescale, postscale] = kScales[all.size() % 3];
        all.push_back(
            {static_cast<DType>(dtype), kOps[all.size() % 5], count, prescale, postscale});
      }
    }
    return all;
  }
  std::vector<Values> inputs(DType dtype, size_t count) const {
    std::vector<Values> all;
    for (int rank = 0; rank < transport_.size(); ++rank) {
      all.push_back(random_values(dtype, count, count + rank));
    }
    return all;
  }

  Result<Reduction> reduction_of(const Task& task) const {
    return Reduction::make(task.op, task.dtype, transport_.size(), task.prescale, task.postscale);
  }
  static Values expected_of(const Task& task, const std::vector<Values>& in) {
    return reference_reduce(task.op, task.dtype, in, task.prescale, task.postscale);
  }

  Status allreduces() {
    std::vector<AllreduceAlgorithm> algorithms;
    for (const AllreduceAlgorithm algorithm : offered_allreduce_algorithms()) {
      if (possible(algorithm)) algorithms.push_back(algorithm);
    }
    for (const Task& task : reductions({0, 1, 1000, 30'001})) {
      const AllreduceAlgorithm algorithm = algorithms[compared_ % algorithms.size()];
      const std::vector<Values> in = inputs(task.dtype, task.count);
      HVD_TRY_ASSIGN(const Reduction reduction, reduction_of(task));
      Values out(in[0].size());
      HVD_TRY(allreduce_in_halves(algorithm, in[transport_.rank()], out, reduction));
      HVD_TRY(expect(near(task.dtype, out, expected_of(task, in), transport_.size()),
                     fmt::format("{} allreduce of {}", to_string(algorithm), task.count)));
    }
    return Status::ok();
  }
  bool possible(AllreduceAlgorithm algorithm) const {
    return AllreduceSelector::make(transport_.topology(), transport_.hosts_share_memory(),
                                   {.algorithm = algorithm}, offered_allreduce_algorithms())
        .is_ok();
  }
  // Reduces the two halves as two tensors of one operation.
  Status allreduce_in_halves(AllreduceAlgorithm algorithm, const Values& in, Values& out,
                             const Reduction& reduction) {
    const size_t half = round_down(in.size() / 2, reduction.element_size());
    const Piece pieces[] = {{in.data(), out.data(), half},
                            {in.data() + half, out.data() + half, in.size() - half}};
    return allreduce_pieces(context(), algorithm, pieces, reduction, fusion_);
  }

  Status reducescatters() {
    for (const Task& task : reductions({1, 5, 9'001})) {
      const std::vector<Values> in = inputs(task.dtype, task.count);
      HVD_TRY_ASSIGN(const Reduction reduction, reduction_of(task));
      const auto bytes_of = row_parts(task.count, size_of(task.dtype), transport_.size());
      Values out(bytes_of[transport_.rank()]);
      const auto algorithm = compared_ % 2 == 0 ? pairwise_reducescatter : ring_reducescatter;
      HVD_TRY(algorithm(context(), in[transport_.rank()], out, bytes_of, reduction));
      const Values all = expected_of(task, in);
      const ConstBytes expected = Blocks(bytes_of).of(ConstBytes(all), transport_.rank());
      HVD_TRY(expect(near(task.dtype, out, expected, transport_.size()), "reducescatter"));
    }
    return Status::ok();
  }

  // Equal vectors give that vector, and so do a vector and zeros.
  Status adasums() {
    for (const DType dtype :
         {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
      const size_t counts[] = {501, 0, 700};
      const Values expected = random_values(dtype, 1201, 3);
      Values data = expected;
      const size_t alone = counts[0] * size_of(dtype);
      if (transport_.rank() != 0) std::fill_n(data.begin(), alone, std::byte{0});
      HVD_TRY(adasum(context(), data, counts, dtype, 1, 1));
      HVD_TRY(expect(near(dtype, data, expected, transport_.size()), "adasum"));
    }
    return Status::ok();
  }

  Status broadcasts() {
    for (const auto algorithm :
         {binomial_broadcast, pipelined_broadcast, two_level_broadcast, broadcast}) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, 2 * kSegmentBytes + 1}) {
        const int root = compared_ % transport_.size();
        const auto expected = pattern(size, root);
        auto data = transport_.rank() == root ? expected : Values(size);
        HVD_TRY(algorithm(context(), data, root));
        HVD_TRY(expect_equal(data, expected, fmt::format("{} bytes from rank {}", size, root)));
      }
    }
    return Status::ok();
  }

  Status allgathers() {
    for (const auto algorithm : {bruck_allgather, ring_allgather, two_level_allgather, allgather}) {
      for (const size_t scale : {size_t{0}, size_t{1}, size_t{1001}, kSegmentBytes + 3}) {
        std::vector<size_t> bytes_of;
        Values expected;
        for (int rank = 0; rank < transport_.size(); ++rank) {
          const auto block = pattern(scale * ((rank + 2) % 3), rank);  // every third is empty
          bytes_of.push_back(block.size());
          expected.insert(expected.end(), block.begin(), block.end());
        }
        Values out(expected.size());
        HVD_TRY(algorithm(context(), pattern(bytes_of[transport_.rank()], transport_.rank()), out,
                          bytes_of));
        HVD_TRY(expect_equal(out, expected, fmt::format("allgather of {} bytes", out.size())));
      }
    }
    return Status::ok();
  }

  Status alltoalls() {
    for (const size_t scale : {0, 1, 1001, 100'003}) {
      const auto message = [scale](int from, int to) {
        return pattern(scale * ((from + 2 * to) % 3), 100 * from + to);
      };
      Values in;
      Values expected;
      std::vector<size_t> send_bytes;
      std::vector<size_t> recv_bytes;
      for (int peer = 0; peer < transport_.size(); ++peer) {
        const auto sent = message(transport_.rank(), peer);
        const auto got = message(peer, transport_.rank());
        in.insert(in.end(), sent.begin(), sent.end());
        expected.insert(expected.end(), got.begin(), got.end());
        send_bytes.push_back(sent.size());
        recv_bytes.push_back(got.size());
      }
      Values out(expected.size());
      for (const auto algorithm : {pairwise_alltoall, alltoall}) {
        HVD_TRY(algorithm(context(), in, send_bytes, out, recv_bytes));
        HVD_TRY(expect_equal(out, expected, fmt::format("alltoall of {} bytes", out.size())));
      }
    }
    return Status::ok();
  }

  Transport& transport_;
  Scratch fusion_;
  Scratch scratch_;
  int compared_ = 0;
};

Result<int> run(const std::vector<std::string>& args) {
  if (args.size() != 7) return invalid_argument("see the head of rank_place.h");
  HVD_TRY_ASSIGN(const auto place, RankArguments::take(args, soon()));
  HVD_TRY_ASSIGN(const auto fabric,
                 Fabric::join(place.options, place.secret, place.rendezvous.get(), soon()));
  std::vector<int> all(place.options.size);
  std::iota(all.begin(), all.end(), 0);
  HVD_TRY_ASSIGN(const auto transport, fabric->make_mesh(0, all, soon()));
  Rank rank(*transport);
  HVD_TRY(rank.run());
  return rank.compared();
}

}  // namespace
}  // namespace hvd::testing

int main(int argc, char** argv) {
  const auto compared = hvd::testing::run({argv, argv + argc});
  std::cout << (compared.is_ok() ? fmt::format("ok {}", *compared) : compared.status().to_string())
            << std::endl;
  return compared.is_ok() ? 0 : 1;
}
