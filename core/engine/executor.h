// SPDX-License-Identifier: Apache-2.0
// Carries out batches over the transport of a process set. Knows tensors and collectives, neither
// names in flight nor other ranks' requests.
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
#include "engine/operation.h"
#include "engine/request.h"
#include "transport/transport.h"

namespace hvd {

struct ExecutorOptions {
  AllreduceOptions allreduce;
  bool hierarchical_allgather = false;
  std::chrono::milliseconds timeout{30'000};  // of a collective that makes no progress
  std::vector<int> job_ranks;                 // by rank of the set
};

class Executor {
 public:
  // `net` outlives it. Fails when the options ask for an algorithm that is impossible there.
  static Result<std::unique_ptr<Executor>> make(Transport& net, const ExecutorOptions& options);

  // One tensor of a batch: what all agreed on, and this rank's part of it, which is null when the
  // rank has joined and takes part without data.
  struct Item {
    const Response* response;
    TensorTask* task;
  };

  // Runs one batch. A failure of one tensor on this rank alone (no memory for its output) goes to
  // its operation; what is returned ends the engine.
  Status run(std::span<const Item> batch);

  // From the next batch on.
  Status set_allreduce(const AllreduceOptions& options);
  void set_hierarchical_allgather(bool on) { options_.hierarchical_allgather = on; }

 private:
  Executor(Transport& net, ExecutorOptions options, AllreduceSelector selector);

  Status allreduce(std::span<const Item> batch);
  Status adasum(std::span<const Item> batch);
  Status allgather(std::span<const Item> batch);
  Status reducescatter(std::span<const Item> batch);
  Status broadcast(const Item& item);
  Status alltoall(const Item& item);

  // Memory for an output of `shape`: the caller's, or a substitute, and a note to the operation,
  // when the caller has none; other ranks take part in the collective whatever happens here.
  Bytes output_of(TensorTask& task, Shape shape);
  // The same in the shape of the input.
  Bytes output_of(TensorTask& task);
  // Memory that holds a value which changes no result.
  ConstBytes identity_of(const Request& request);
  Deadline limit() const { return Deadline::without_progress_for(options_.timeout); }
  CollectiveContext context() { return {net_, scratch_, limit(), options_.allreduce}; }

  Transport& net_;
  ExecutorOptions options_;
  AllreduceSelector selector_;
  Scratch fusion_;  // tensors side by side
  Scratch fused_out_;
  Scratch scratch_;  // of the algorithms
  Scratch identity_;
  // Of outputs of the present batch that the caller had no memory for: each has its own, since all
  // of them are in use at once.
  std::vector<std::unique_ptr<Scratch>> substitutes_;
  std::vector<Piece> pieces_;
};

}  // namespace hvd
