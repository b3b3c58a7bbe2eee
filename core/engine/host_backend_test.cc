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

}  // namespace
}  // namespace hvd
