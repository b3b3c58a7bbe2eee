// SPDX-License-Identifier: Apache-2.0
// Carries out batches in host memory, with our own collectives over the transport of the process
// set. Every batch is finished when run() returns.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/scratch.h"
#include "collectives/select.h"
#include "engine/backend.h"
#include "engine/operation.h"
#include "engine/request.h"
#include "transport/transport.h"

namespace hvd {

struct HostBackendOptions {
  AllreduceOptions allreduce;
  bool hierarchical_allgather = false;
  std::chrono::milliseconds timeout{30'000};  // after which a collective without progress fails
  std::vector<int> job_ranks;                 // by rank of the set
};

class HostBackend final : public Backend {
 public:
  // `transport` must outlive it. Fails when the options ask for an algorithm that is impossible on
  // `transport`.
  static Result<std::unique_ptr<HostBackend>> make(Transport& transport,
                                                   const HostBackendOptions& options);

  bool takes(const Response&) const override { return true; }
  // If there is no memory for the output of a tensor, its operation fails on this rank alone, and
  // run() returns ok. Any returned failure ends the engine.
  Status run(std::span<const Item> batch, Completion& completion) override;

  // Both take effect with the next batch.
  Status set_allreduce(const AllreduceOptions& options);
  void set_hierarchical_allgather(bool on) { options_.hierarchical_allgather = on; }

 private:
  HostBackend(Transport& transport, HostBackendOptions options, AllreduceSelector selector);

  Status carry_out(std::span<const Item> batch);
  Status allreduce(std::span<const Item> batch);
  Status adasum(std::span<const Item> batch);
  Status allgather(std::span<const Item> batch);
  Status reducescatter(std::span<const Item> batch);
  Status broadcast(const Item& item);
  Status alltoall(const Item& item);

  // Memory for an output of `shape`. If the caller's allocator returns no memory, the operation
  // fails. This rank still takes part in the collective, with substitute memory, because the other
  // ranks need its data.
  Bytes output_of(TensorTask& task, Shape shape);
  // The same in the shape of the input.
  Bytes output_of(TensorTask& task);
  // Memory that holds the identity of the reduction.
  ConstBytes identity_of(const Request& request);
  Deadline limit() const { return Deadline::without_progress_for(options_.timeout); }
  CollectiveContext context() { return {transport_, scratch_, limit(), options_.allreduce}; }

  Transport& transport_;
  HostBackendOptions options_;
  AllreduceSelector selector_;
  Scratch fusion_;     // inputs of the tensors of a batch, one after the other
  Scratch fused_out_;  // their outputs, where these have other sizes
  Scratch scratch_;    // of the algorithms
  Scratch identity_;   // inputs of a rank that has joined
  // Outputs of the present batch for which the caller had no memory. Each has its own, because all
  // of them are in use at the same time.
  std::vector<std::unique_ptr<Scratch>> substitutes_;
  std::vector<Piece> pieces_;
};

}  // namespace hvd
