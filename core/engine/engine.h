// SPDX-License-Identifier: Apache-2.0
// The engine of one process set: turns tensors that its ranks submit in any order into collectives
// that all of them run in the same order.
//
// Threads. The engine has no fixed cycle. One thread at a time runs it: the thread that holds the
// mutex `running_`. It is one of these:
//   - A waiting thread: a caller inside wait() or shutdown(). It runs the engine until its
//     operation is done, so a blocking operation needs no switch of threads. When several threads
//     wait, one of them runs the engine, and the others sleep on `changed_` until that thread wakes
//     them.
//   - The engine thread: it runs the engine for callers that do not wait, and sleeps when there is
//     nothing to do. While a waiting thread exists, the engine thread does not run the engine.
// While a batch is reduced, the next submissions gather in in_flight_.
//
// Sleeping and waking. A thread that runs the engine sleeps on the doorbell of the control plane.
// Peers and threads that submit ring it. Its word holds the listener: the thread that a ring has to
// wake (Doorbell::Listener).
//
//   state of the engine                    listener
//   a thread runs it and polls             kNone
//   a waiting thread sleeps in it          kWaitingThread
//   work is in flight, no thread runs it   kEngineThread
//   nothing is in flight                   kIdleEngineThread (only urgent rings wake it)
//
// A thread that stops running the engine must set a listener, because otherwise a later ring wakes
// no thread. A waiting thread sets it in hand_back(). It may skip hand_back() while `thread_polls_`
// is set: then the engine thread polls for work within kLongestDoze. Before a thread sleeps, it
// calls listen() and then looks for work once more, so that a ring between the two is not lost.
//
// Failures. A lost rank or a shutdown ends the engine: every operation in flight fails with the
// reason, and so does every later submission. An exception on any thread ends the engine in the
// same way; usually no memory is left in the middle of a collective. This rank then reports
// kUnavailable, and the other ranks report that this rank was lost.
//
// Only the thread that holds `running_` finishes operations, because the thread that runs the
// engine may be writing to their memory.
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
  int core = -1;                         // CPU core to pin the engine thread to; -1: none
  int ranks_on_host = 1;                 // of the job, not of the set: decides how long to spin
  std::shared_ptr<const Sealer> sealer;  // of this process set; null: none
};

// kWillWait: the caller of submit() calls wait() next and then runs the engine itself, so submit()
// does not wake the engine thread.
enum class SubmitHint { kNone, kWillWait };

class Engine {
 public:
  // `control` is null if and only if `transport` has one rank. Such an engine has no engine thread,
  // and submit() carries the operation out. The engine shares ownership of both.
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options,
                                               std::shared_ptr<Transport> transport,
                                               std::shared_ptr<ControlPlane> control);
  ~Engine();  // fails operations in flight and joins the engine thread

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  const std::vector<int>& job_ranks() const { return options_.worker.host_backend.job_ranks; }
  const Sealer* sealer() const { return options_.sealer.get(); }

  // Callable from any thread and from callbacks of operations; never waits for another rank. The
  // engine holds a ref of the operation until it is done. Fails at once for invalid arguments and
  // for a name that is in flight. After the engine has ended, it fails with the reason of the end.
  // If it fails, the operation was not submitted.
  Status submit(Operation& operation, SubmitHint hint = SubmitHint::kNone) noexcept;

  // Callable from any thread, but not from callbacks of operations. Runs the engine until the
  // operation is done (ok; its outcome is in its status()) or the deadline has passed (kTimeout;
  // the operation continues). The deadline is not checked inside a collective.
  Status wait(const Operation& operation, Deadline deadline = Deadline::never()) noexcept;

  // Ends the engine on all ranks; every operation in flight fails with `reason`. Returns once the
  // engine has ended on this rank, the children in the tree have sent their goodbyes, and all
  // messages of this rank have left. If the engine has not ended at the deadline, it aborts the
  // transport, so that a collective that still runs returns. Not callable from callbacks of
  // operations.
  void shutdown(const Status& reason, Deadline deadline) noexcept;
  // Called in a catch block, on any thread: the exception that was caught ends the engine. Returns
  // the status that operations of this rank fail with.
  Status end_by_exception() noexcept HVD_EXCLUDES(ended_mutex_);
  // Ok, or the reason why the engine has ended or is about to end.
  Status ended() const noexcept HVD_EXCLUDES(ended_mutex_);

 private:
  Engine(const EngineOptions& options, std::shared_ptr<Transport> transport,
         std::shared_ptr<ControlPlane> control);

  // The loop of a waiting thread: runs the engine whenever no other thread does, until `done()` or
  // the deadline. Returns done().
  template <typename Done>
  bool run_until_done(Done done, Deadline deadline) noexcept;
  template <typename Done>
  void run_until(Done done, Deadline deadline) noexcept HVD_REQUIRES(running_);
  // Makes the engine thread the listener of the doorbell again.
  void hand_back() noexcept HVD_REQUIRES(running_);
  void hand_back_if_unattended() noexcept;
  // Sleeps while another thread runs the engine; returns when `done()`, or when no thread runs it.
  template <typename Done>
  void wait_for_runner(Done done, Deadline deadline) noexcept;
  // Wakes the threads in wait_for_runner().
  void wake_waiters() noexcept;

  // With a single rank: carries out all that is queued, on the calling thread.
  void run_alone() noexcept HVD_EXCLUDES(running_);
  // Does one step of the worker, or, once the engine has ended, one step of Worker::part(). Returns
  // whether there was anything to do.
  bool advance() noexcept HVD_REQUIRES(running_);
  bool advance_or_throw() HVD_REQUIRES(running_);
  void sleep(Doorbell::Listener listener, Deadline deadline) noexcept HVD_REQUIRES(running_);
  // The checks that are due every few milliseconds of waiting: lost ranks and stalled tensors.
  void look_around() noexcept HVD_REQUIRES(running_);
  // Fails everything in flight with `reason`, or with the earlier reason if there is one.
  void end(const Status& reason) noexcept HVD_REQUIRES(running_);
  void part() noexcept HVD_REQUIRES(running_);
  Status status_of_exception() const noexcept;
  // Aborts the transport, so that the other ranks learn that this one is lost.
  void abort(const Status& reason) noexcept;
  // Records why the engine ends; the first reason wins and is returned.
  Status note_end(const Status& reason) noexcept HVD_EXCLUDES(ended_mutex_);
  bool is_busy() const HVD_REQUIRES(running_) {
    return in_flight_.count() > 0 || worker_->is_watching() || (has_ended_ && !parted_);
  }
  // For stall reports: the call in which a thread of this rank has waited longest.
  std::string inside_call() const HVD_EXCLUDES(calls_mutex_);

  // The engine thread.
  void run_thread() noexcept;
  void watch() noexcept;
  struct Pause {
    uint32_t ticket = 0;
    Doorbell::Listener listener = Doorbell::Listener::kNone;
    std::chrono::microseconds at_most{0};
  };
  // Returns how, and for how long at most, the engine thread may sleep afterwards.
  Pause work_until_idle() noexcept HVD_REQUIRES(running_);

  // Constant after start.
  const EngineOptions options_;
  const std::shared_ptr<Transport> transport_;
  const std::shared_ptr<ControlPlane> control_;
  const WaitPolicy waiting_policy_;
  const ForkGeneration fork_generation_;
  // Made at the start: memory may have run out by the time they are needed.
  const Status no_memory_;
  const Status stopped_;
  const Status not_done_;

  InFlight in_flight_;

  // Held by the thread that runs the engine, for as long as it does.
  Mutex running_;
  std::unique_ptr<Worker> worker_ HVD_GUARDED_BY(running_);
  std::chrono::steady_clock::time_point next_tick_ HVD_GUARDED_BY(running_);

  // With a single rank: the thread in run_alone(), so that a submission from a callback does not
  // try to lock running_ again.
  std::atomic<std::thread::id> alone_{};

  // The end has three states. First one of two flags is set: wants_shutdown_ asks the worker for a
  // plan that ends the engine on all ranks; must_end_, after an exception, makes the next thread
  // that runs the engine end it at once. Then has_ended_ is set: no operation is in flight any
  // more. Last parted_ is set: goodbyes are exchanged, and the control plane may be closed.
  std::atomic<bool> wants_shutdown_{false};
  std::atomic<bool> must_end_{false};
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> parted_{false};
  mutable Mutex ended_mutex_;
  Status shutdown_ HVD_GUARDED_BY(ended_mutex_);  // the reason for wants_shutdown_
  Status ended_ HVD_GUARDED_BY(ended_mutex_);     // the reason for must_end_ and has_ended_

  // The operations that threads wait for now: a linked list of objects on the stacks of these
  // threads, so that it needs no allocation.
  class Call;
  mutable Mutex calls_mutex_;
  Call* calls_ HVD_GUARDED_BY(calls_mutex_) = nullptr;

  // Number of threads in run_until_done(); one of them may run the engine. While the number is
  // above 0, the engine thread does not run it.
  std::atomic<int> waiting_threads_{0};
  // How often a waiting thread has taken over the engine. Written only with running_ held.
  std::atomic<uint64_t> runs_by_waiting_{0};
  // True while the engine thread is in watch(), where it polls for work within kLongestDoze.
  std::atomic<bool> thread_polls_{false};
  // runs_by_waiting_ when the engine thread last looked; used by that thread alone.
  uint64_t runs_seen_ = 0;
  // Number of threads in wait_for_runner() that sleep or are about to sleep. wake_waiters()
  // notifies them.
  std::atomic<int> waiters_{0};
  Mutex waiters_mutex_;
  CondVar changed_;

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace hvd
