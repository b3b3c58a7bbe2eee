// SPDX-License-Identifier: Apache-2.0
// The engine of one process set: turns tensors that its ranks submit in any order into collectives
// that all of them run in the same order.
//
// There is no cycle. The engine is run by whoever needs it: a thread that waits for an operation
// takes it over until the operation is done ("helper"), so that a blocking operation costs no
// switch of threads; for callers who do not wait the engine has a thread of its own ("keeper"),
// which sleeps whenever there is nothing to do. While a batch is being reduced, the next one
// gathers.
//
// A failure (a lost rank, a shutdown) ends the engine: everything in flight fails with the reason,
// and so does everything submitted later. So does an exception, whatever thread it is thrown on:
// mostly it is the want of memory in the middle of a collective. This rank then reports
// kUnavailable, the others that this rank was lost.
//
// Operations are finished by the thread that runs the engine, or while nobody runs it: a runner may
// be writing to their memory.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/in_flight.h"
#include "engine/operation.h"
#include "engine/worker.h"
#include "net/seal.h"
#include "transport/control/control_plane.h"
#include "transport/transport.h"
#include "transport/waiting.h"

namespace hvd {

struct EngineOptions {
  WorkerOptions worker;
  std::string thread_name = "hvd-engine";
  int core = -1;                         // to pin the engine thread to; -1: none
  int ranks_on_host = 1;                 // of the whole job: how patiently to spin
  std::shared_ptr<const Sealer> sealer;  // of this process set; null: there is none
};

// Whether the caller of submit() waits for the operation right away. Then nobody is woken: the
// caller itself will run the engine.
enum class SubmitHint { kNone, kWillWait };

class Engine {
 public:
  // `control` is null exactly if `transport` has one rank; then operations run within submit().
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options,
                                               std::shared_ptr<Transport> transport,
                                               std::shared_ptr<ControlPlane> control);
  ~Engine();  // stop()

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  const std::vector<int>& job_ranks() const { return options_.worker.host_backend.job_ranks; }
  const Sealer* sealer() const { return options_.sealer.get(); }

  // Safe from any thread and from callbacks of operations, and never waits. Fails at once for what
  // is wrong by itself.
  Status submit(Operation& operation, SubmitHint hint = SubmitHint::kNone) noexcept;

  // Runs the engine until the operation is done, or until the deadline, after which it goes on.
  // Returns kTimeout then, and ok otherwise: how the operation fared is in its status(). While this
  // thread is inside a collective it does not look at the deadline.
  Status wait(const Operation& operation, Deadline deadline = Deadline::never()) noexcept;

  // Ends the engine on all ranks; everything in flight fails with `reason`. Returns once it has
  // ended here and the neighbours know, or a moment after the deadline: then the transport is
  // aborted, so that a collective that still runs comes back. Not from callbacks of operations.
  void shutdown(const Status& reason, Deadline deadline) noexcept;
  // For a catch block, on any thread: the exception ends the engine. Returns what this rank is
  // told.
  Status end_by_exception() noexcept HVD_EXCLUDES(ended_mutex_);
  // Ok, or why it ended or is about to.
  Status ended() const noexcept HVD_EXCLUDES(ended_mutex_);

 private:
  Engine(const EngineOptions& options, std::shared_ptr<Transport> transport,
         std::shared_ptr<ControlPlane> control);

  // Runs the engine until `done`, by taking it over whenever nobody else runs it.
  template <typename Done>
  bool run_until_done(Done done, Deadline deadline) noexcept;
  template <typename Done>
  void run_until(Done done, Deadline deadline) noexcept HVD_REQUIRES(running_);
  void hand_back() noexcept HVD_REQUIRES(running_);
  void hand_back_if_unattended() noexcept;
  template <typename Done>
  void wait_for_runner(Done done, Deadline deadline) noexcept;
  void wake_waiters() noexcept;

  void run_alone() noexcept HVD_EXCLUDES(running_);
  // Does what can be done now; whether there was anything.
  bool advance() noexcept HVD_REQUIRES(running_);
  bool advance_or_throw() HVD_REQUIRES(running_);
  void sleep(Doorbell::Listener listener, Deadline deadline) noexcept HVD_REQUIRES(running_);
  // What has to be done every few milliseconds of waiting.
  void look_around() noexcept HVD_REQUIRES(running_);
  // Everything in flight fails with `reason`, or with an earlier one.
  void end(const Status& reason) noexcept HVD_REQUIRES(running_);
  void part() noexcept HVD_REQUIRES(running_);
  Status status_of_exception() const noexcept;
  // Lets the other ranks know.
  void abort(const Status& reason) noexcept;
  // Keeps the first reason.
  Status note_end(const Status& reason) noexcept HVD_EXCLUDES(ended_mutex_);
  bool is_busy() const HVD_REQUIRES(running_) {
    return in_flight_.count() > 0 || worker_->is_watching() || (has_ended_ && !parted_);
  }
  std::string inside_call() const HVD_EXCLUDES(calls_mutex_);

  // The thread of its own.
  void run_thread() noexcept;
  void watch() noexcept;
  struct Pause {
    uint32_t ticket = 0;
    Doorbell::Listener listener = Doorbell::Listener::kNone;
    std::chrono::microseconds at_most{0};
  };
  // Returns how the engine thread may sleep until there is more to do.
  Pause work_until_idle() noexcept HVD_REQUIRES(running_);

  // Constant after start.
  const EngineOptions options_;
  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<ControlPlane> control_;
  const WaitPolicy waiting_policy_;
  const ForkGeneration fork_generation_;
  // Made at the start, since there may be no memory for them later.
  const Status no_memory_;
  const Status stopped_;
  const Status not_done_;

  InFlight in_flight_;

  // Held by the thread that runs the engine.
  Mutex running_;
  std::unique_ptr<Worker> worker_ HVD_GUARDED_BY(running_);
  std::chrono::steady_clock::time_point next_tick_ HVD_GUARDED_BY(running_);

  std::atomic<std::thread::id> alone_{};  // the thread in run_alone()

  std::atomic<bool> wants_shutdown_{false};
  std::atomic<bool> must_end_{false};  // ended_ says why; the thread that runs the engine ends it
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> parted_{false};  // and the neighbours know
  mutable Mutex ended_mutex_;
  Status shutdown_ HVD_GUARDED_BY(ended_mutex_);  // what wants_shutdown_ is about
  Status ended_ HVD_GUARDED_BY(ended_mutex_);

  // The operations that threads wait for at the moment: a list through these threads' stacks, which
  // costs no memory.
  class Call;
  mutable Mutex calls_mutex_;
  Call* calls_ HVD_GUARDED_BY(calls_mutex_) = nullptr;

  std::atomic<int> waiting_threads_{0};  // threads that wait, one of which may run the engine
  std::atomic<uint64_t> runs_by_waiting_{
      0};  // how often one of them did; written by who runs the engine
  std::atomic<bool> thread_polls_{false};  // the engine thread looks by itself, and soon
  uint64_t runs_seen_ = 0;                 // the engine thread's: when it last looked
  std::atomic<int> waiters_{0};            // of these, those that another thread has to wake
  Mutex waiters_mutex_;
  CondVar changed_;

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace hvd
