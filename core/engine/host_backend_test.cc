// SPDX-License-Identifier: Apache-2.0
#include "engine/host_backend.h"

#include <algorithm>

#include "engine/operation.h"
#include "testing/assertions.h"
#include "transport/testing/run_ranks.h"

namespace hvd {
namespace {

// An attacker between this rank and the other ranks: turns every number of 4 bytes into -1.
class ChangedNumbers final : public Transport {
 public:
  explicit ChangedNumbers(Transport& inner)
      : Transport(inner.rank(), inner.topology()), inner_(inner) {}

  Status send(int to, ConstBytes out, Deadline deadline) override {
    return inner_.send(to, out, deadline);
  }
  Status recv(int from, Bytes in, Deadline deadline) override {
    HVD_TRY(inner_.recv(from, in, deadline));
    if (in.size() == sizeof(int32_t)) std::fill(in.begin(), in.end(), std::byte{0xff});
    return Status::ok();
  }
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override {
    return inner_.recv_pieces(from, size, unit, consume, deadline);
  }
  Status flush(Deadline deadline) override { return inner_.flush(deadline); }
  void abort(const Status& reason) override { inner_.abort(reason); }

 private:
  Transport& inner_;
};

Status alltoall_of_one_row_each(Transport& transport) {
  HostBackendOptions options;
  for (int rank = 0; rank < transport.size(); ++rank) options.job_ranks.push_back(10 + rank);
  HVD_TRY_ASSIGN(const auto backend, HostBackend::make(transport, options));
  const std::vector<float> rows(static_cast<size_t>(transport.size()));
  TensorTask task;
  task.request.name = "rows";
  task.request.type = RequestType::kAlltoall;
  task.request.shape = {transport.size()};
  task.in = reinterpret_cast<const std::byte*>(rows.data());
  task.splits.assign(rows.size(), 1);
  Response response;
  response.request = task.request;
  std::vector<TensorTask> tasks;
  tasks.push_back(std::move(task));
  const Operation::Ref operation = Operation::make(std::move(tasks));
  const HostBackend::Item item{&response, operation->tasks.data()};
  struct : Completion {
    void finish(const Status& outcome) override { EXPECT_OK(outcome); }
  } completion;
  return backend->run({&item, 1}, completion);
}

// Three ranks: the lengths of two blocks outside of the output can add up to one that fits.
TEST(HostBackend, RefusesNumbersOfRowsThatNoRankCanHaveSent) {
  const auto outcomes =
      testing::outcomes_of_ranks(testing::TransportKind::kInproc, 3, [](Transport& transport) {
        if (transport.rank() != 1) return alltoall_of_one_row_each(transport);
        ChangedNumbers changed(transport);
        return alltoall_of_one_row_each(changed);
      });
  EXPECT_CODE(StatusCode::kUnauthenticated, outcomes[1]);
  EXPECT_THAT(outcomes[1].message(), ::testing::HasSubstr("\"rows\": rank 10 "));
}

// A rank that has joined may still have some tensors of a batch: those that it submitted before.
// The reductions of all tensors of the batch have the same factors.
Status reduce_the_second_without_rank_1(Transport& transport, ReduceOp op, float first[2],
                                        float second[2]) {
  HVD_TRY_ASSIGN(const auto backend, HostBackend::make(transport, {}));
  std::vector<TensorTask> tasks(2);
  std::vector<Response> responses(2);
  float* const data[] = {first, second};
  for (int i = 0; i < 2; ++i) {
    tasks[i].request.name = std::to_string(i);
    tasks[i].request.op = op;
    tasks[i].request.prescale = 3;
    tasks[i].request.shape = {2};
    tasks[i].in = reinterpret_cast<const std::byte*>(data[i]);
    tasks[i].out = reinterpret_cast<std::byte*>(data[i]);
    responses[i].request = tasks[i].request;
  }
  const Operation::Ref operation = Operation::make(std::move(tasks));
  TensorTask* const present = operation->tasks.data();
  const HostBackend::Item batch[] = {
      {&responses[0], present},
      {&responses[1], transport.rank() == 1 ? nullptr : present + 1},
  };
  struct : Completion {
    void finish(const Status& outcome) override { EXPECT_OK(outcome); }
  } completion;
  return backend->run(batch, completion);
}

TEST(HostBackend, ScalesTheTensorsThatAJoinedRankStillHas) {
  for (const auto kind : {testing::TransportKind::kInproc, testing::TransportKind::kShm}) {
    testing::run_ranks(kind, 2, [](Transport& transport) {
      const float mine = transport.rank() == 0 ? 5 : 7;
      float first[] = {mine, -mine};
      float second[] = {11, -11};
      HVD_TRY(reduce_the_second_without_rank_1(transport, ReduceOp::kSum, first, second));
      EXPECT_THAT(first, ::testing::ElementsAre(3 * 5 + 3 * 7, -3 * 5 - 3 * 7));
      if (transport.rank() == 0) {
        EXPECT_THAT(second, ::testing::ElementsAre(33, -33));
      }

      float least[] = {mine, -mine};
      float alone[] = {11, -11};
      HVD_TRY(reduce_the_second_without_rank_1(transport, ReduceOp::kMin, least, alone));
      EXPECT_THAT(least, ::testing::ElementsAre(3 * 5, -3 * 7));
      if (transport.rank() == 0) {
        EXPECT_THAT(alone, ::testing::ElementsAre(33, -33));
      }
      return Status::ok();
    });
  }
}

}  // namespace
}  // namespace hvd
