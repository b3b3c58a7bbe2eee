// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "capi/testing/scenario.h"

namespace scenario {
namespace {

using Blob = std::vector<unsigned char>;

struct Release {
  void operator()(hvd_operation* operation) const { hvd_release(operation); }
};
using Operation = std::unique_ptr<hvd_operation, Release>;

// An operation for seals: an allgather of the ranks of a set without data. The numbers of rows
// carry the values whose sum is needed.
Operation gather(const std::string& name, int64_t rows, int32_t set, int64_t* sum = nullptr) {
  hvd_request request = HVD_REQUEST_INIT;
  request.collective = HVD_ALLGATHER;
  request.process_set = set;
  request.flags = HVD_WILL_WAIT;
  const int64_t shape[] = {rows, 0};
  const hvd_tensor tensor = {sizeof(tensor), name.c_str(), nullptr, nullptr, shape, 2,
                             HVD_UINT8,      nullptr,      0};
  hvd_operation* operation = nullptr;
  EXPECT(hvd_submit(&request, &tensor, 1, &operation) == HVD_OK);
  EXPECT(hvd_wait(operation, -1) == HVD_OK);
  hvd_output output = {sizeof(output), nullptr, nullptr, 0, nullptr, 0};
  EXPECT(hvd_get_output(operation, 0, &output) == HVD_OK);
  EXPECT(output.dims == 2 && output.shape[1] == 0);
  if (sum != nullptr) *sum = output.shape[0];
  return Operation(operation);
}

Blob sealed(const Operation& operation, const std::string& text) {
  Blob blob(text.begin(), text.end());
  blob.resize(text.size() + HVD_SEAL_BYTES);
  EXPECT(hvd_seal(operation.get(), blob.data(), blob.size()) == HVD_OK);
  return blob;
}

bool accepts(const Operation& operation, int rank, const Blob& blob) {
  const hvd_code code = hvd_check_seal(operation.get(), rank, blob.data(), blob.size());
  if (code == HVD_OK) return true;
  EXPECT(code == HVD_UNAUTHENTICATED);
  EXPECT(std::strstr(hvd_error(), ("rank " + std::to_string(rank)).c_str()) != nullptr);
  return false;
}

// The bytes that every rank of the set has sealed for `operation`, in the order of the set.
std::vector<Blob> exchanged(const Operation& operation, const std::string& text, int32_t set) {
  const Blob all = hvd::allgather(sealed(operation, text), {.process_set = set});
  const size_t size = text.size() + HVD_SEAL_BYTES;
  std::vector<Blob> blobs;
  for (size_t at = 0; at < all.size(); at += size) {
    blobs.emplace_back(all.begin() + ptrdiff_t(at), all.begin() + ptrdiff_t(at + size));
  }
  return blobs;
}

void expect_agreement(int32_t set = HVD_GLOBAL_SET) {
  const Operation operation = gather("agreement", 0, set);
  const std::vector<int32_t> ranks = hvd::ProcessSet(set).ranks();
  const std::vector<Blob> blobs = exchanged(operation, "all the same", set);
  EXPECT(blobs.size() == ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) EXPECT(accepts(operation, ranks[i], blobs[i]));
}

void numbers_travel_without_bytes() {
  const int64_t large = int64_t{1} << 40;
  int64_t sum = 0;
  gather("lengths", hvd::rank() == 1 ? large : 0, HVD_GLOBAL_SET, &sum);
  EXPECT(sum == large);
}

void seals_of_other_ranks_and_operations_are_refused() {
  const Operation first = gather("same name", 0, HVD_GLOBAL_SET);
  const std::vector<Blob> early = exchanged(first, "early", HVD_GLOBAL_SET);
  const Operation second = gather("same name", 0, HVD_GLOBAL_SET);
  const std::vector<Blob> late = exchanged(second, "late!", HVD_GLOBAL_SET);
  const Operation other = gather("other name", 0, HVD_GLOBAL_SET);
  for (int rank = 0; rank < hvd::size(); ++rank) {
    const int neighbour = (rank + 1) % hvd::size();
    EXPECT(accepts(first, rank, early[size_t(rank)]));
    EXPECT(accepts(second, rank, late[size_t(rank)]));
    EXPECT(!accepts(first, neighbour, early[size_t(rank)]));
    EXPECT(!accepts(second, rank, early[size_t(rank)]));
    EXPECT(!accepts(first, rank, late[size_t(rank)]));
    EXPECT(!accepts(other, rank, early[size_t(rank)]));
    Blob changed = early[size_t(rank)];
    changed[0] ^= 1;
    EXPECT(!accepts(first, rank, changed));
    changed = early[size_t(rank)];
    changed.pop_back();
    EXPECT(!accepts(first, rank, changed));
    EXPECT(!accepts(first, rank, Blob()));
  }
}

// Some ranks have then submitted more operations than other ranks; the seals still agree.
void ranks_agree_after_joins_failures_and_other_orders() {
  std::vector<float> values(3, 1);
  if (hvd::rank() > 0) {
    hvd::allreduce(values, {.name = "uneven"});
    EXPECT(failure_of([] { (void)hvd::allgather(Blob(3), {.name = "agreement"}); }).code() !=
           HVD_OK);
  }
  hvd::join();
  expect_agreement();
  EXPECT(failure_of([&] {
           hvd::allreduce(std::span(values).first(hvd::rank() == 0 ? 1 : 2), {.name = "odd"});
         }).code() == HVD_PRECONDITION);
  expect_agreement();
  std::vector<std::vector<float>> data(20, std::vector<float>(3, 1));
  std::vector<hvd::Future<>> futures;
  for (int i = 0; i < 20; ++i) {
    const int number = (i + 7 * hvd::rank()) % 20;
    futures.push_back(hvd::allreduce_async(data[size_t(number)], {.name = std::to_string(number)}));
  }
  expect_agreement();
  for (auto& future : futures) future.get();
  expect_agreement();
}

// A process set that reuses the id of a removed set is a different set.
void seals_of_other_process_sets_are_refused() {
  std::vector<int32_t> tail(size_t(hvd::size() - 1));
  std::iota(tail.begin(), tail.end(), 1);
  Blob blob;
  for (int round = 0; round < 2; ++round) {
    const hvd::ProcessSet set = hvd::ProcessSet::add(tail);
    EXPECT(set.id() == 1);
    if (!set.included()) continue;
    const Operation operation = gather("same name", 0, set.id());
    if (round == 0) blob = sealed(operation, "early");
    EXPECT(accepts(operation, hvd::rank(), blob) == (round == 0));
    expect_agreement(set.id());
  }
}

void a_seal_needs_an_operation_that_is_done() {
  hvd_request request = HVD_REQUEST_INIT;
  std::vector<float> values(3, 1);
  const int64_t count = 3;
  const std::string name = "only here " + std::to_string(hvd::rank());
  const hvd_tensor tensor = {sizeof(tensor), name.c_str(), values.data(),
                             values.data(),  &count,       1,
                             HVD_FLOAT32,    nullptr,      0};
  hvd_operation* started = nullptr;
  EXPECT(hvd_submit(&request, &tensor, 1, &started) == HVD_OK);
  const Operation operation(started);
  Blob blob(HVD_SEAL_BYTES);
  EXPECT(hvd_seal(operation.get(), blob.data(), blob.size()) == HVD_PRECONDITION);
  EXPECT(hvd_check_seal(operation.get(), 0, blob.data(), blob.size()) == HVD_PRECONDITION);
  const Operation done = gather("done", 0, HVD_GLOBAL_SET);
  EXPECT(hvd_seal(done.get(), blob.data(), HVD_SEAL_BYTES - 1) == HVD_INVALID_ARGUMENT);
  EXPECT(hvd_seal(done.get(), blob.data(), HVD_SEAL_BYTES) == HVD_OK);
  hvd::barrier();
  hvd::shutdown();
  EXPECT(hvd_seal(operation.get(), blob.data(), blob.size()) == HVD_PRECONDITION);
  EXPECT(hvd_seal(done.get(), blob.data(), blob.size()) == HVD_ABORTED);
  EXPECT(hvd_check_seal(done.get(), 0, blob.data(), blob.size()) == HVD_ABORTED);
}

}  // namespace

void run_seals() {
  hvd::init();
  numbers_travel_without_bytes();
  expect_agreement();
  seals_of_other_ranks_and_operations_are_refused();
  ranks_agree_after_joins_failures_and_other_orders();
  seals_of_other_process_sets_are_refused();
  a_seal_needs_an_operation_that_is_done();

  // The first operations of two jobs on the same ranks with the same secret differ.
  std::vector<Blob> blobs;
  for (int job = 0; job < 2; ++job) {
    hvd::init();
    const Operation operation = gather("first", 0, HVD_GLOBAL_SET);
    if (job == 0) blobs = exchanged(operation, "early", HVD_GLOBAL_SET);
    for (int rank = 0; rank < hvd::size(); ++rank) {
      EXPECT(accepts(operation, rank, blobs[size_t(rank)]) == (job == 0));
    }
    expect_agreement();
    hvd::barrier();
    hvd::shutdown();
  }
}

}  // namespace scenario
