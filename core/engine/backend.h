// SPDX-License-Identifier: Apache-2.0
// The seam between the engine and the code that moves data. A worker has a list of backends and
// gives every batch to the first one that takes it. The host backend (host_backend.h) is the last
// of the list and takes every batch; it is the only implementation today. A backend for a device
// would start a batch on a stream and report it finished on a later poll.
//
//   Worker::carry_out --run()--> Backend ---------------------> Completion::finish, at once
//   Worker::step ------poll()--> Backend, batches still running --> Completion::finish, later
//
// All functions of a backend and of a Completion are called on the thread that runs the engine; no
// two of them run at a time. A backend with threads of its own hands their results over in poll().
#pragma once

#include <span>

#include "base/status.h"
#include "engine/operation.h"
#include "engine/request.h"

namespace hvd {

// The object to which a backend reports the end of one batch. The worker owns it. It is valid until
// finish() returns, or until Backend::abandon() returns.
class Completion {
 public:
  virtual ~Completion() = default;
  // To be called exactly once, from run() or poll(). Finishes the tasks of the batch, which may
  // call callbacks of the front end. If `outcome` is a failure, the operations of the batch fail
  // with it on this rank alone, and the engine continues.
  virtual void finish(const Status& outcome) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // One tensor of a batch: the response that all ranks agreed on, and this rank's task. The task is
  // null if this rank has joined and takes part without data.
  struct Item {
    const Response* response;
    TensorTask* task;
  };

  // Whether this backend carries out `response`. The answer must be the same on all ranks. It must
  // also be the same for all responses that can be fused into one batch (fusion.cc), because the
  // worker asks for the first item only.
  virtual bool takes(const Response& response) const = 0;

  // Carries out a batch, or starts it. All ranks start batches in the same order. `batch`, the
  // objects that it points to and `completion` are valid until completion.finish() is called. A
  // returned failure ends the engine on all ranks. It is for errors after which ranks may disagree
  // on which batches were carried out.
  virtual Status run(std::span<const Item> batch, Completion& completion) = 0;

  // Calls finish() for batches that have ended since the last call; must not block. While a batch
  // of any backend is running, it is called in every step of the engine: at least every 50 us,
  // unless another batch is inside run(). A failure ends the engine, as in run().
  virtual Status poll() { return Status::ok(); }

  // The engine ends. After the return the backend neither touches the memory of any batch nor uses
  // its Completion.
  virtual void abandon() noexcept {}
};

}  // namespace hvd
