// SPDX-License-Identifier: Apache-2.0
// The part of an engine that one thread at a time runs: the thread that holds Engine::running_. It
// takes submitted operations, negotiates, carries out plans and finishes operations. It blocks only
// inside a collective that all ranks have agreed on, and while it sends a long plan.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "engine/autotune/autotune_log.h"
#include "engine/autotune/autotuner.h"
#include "engine/autotune/tunables.h"
#include "engine/backend.h"
#include "engine/fusion.h"
#include "engine/host_backend.h"
#include "engine/in_flight.h"
#include "engine/negotiator.h"
#include "engine/observer.h"
#include "engine/stall/stall_report.h"
#include "engine/stall/stall_watch.h"
#include "transport/control/control_plane.h"
#include "transport/transport.h"

namespace hvd {

struct WorkerOptions {
  // Settings that autotune may change.
  Tunables tunables;
  // Settings that autotune must not change. `tunables` wins where both set a value.
  FusionOptions fusion;
  HostBackendOptions host_backend;
  // Asked in this order whether they take a batch, before the host backend.
  std::vector<std::shared_ptr<Backend>> backends;
  size_t cache_capacity = Config::kDefaultCacheCapacity;  // responses
  bool warns_of_small_cache = false;                      // the user has set the capacity
  // If set, the coordinator tunes. It writes the values that it has tried to the file
  // `autotune_log`, unless that is empty.
  std::optional<AutotuneOptions> autotune;
  std::string autotune_log;
  std::shared_ptr<EngineObserver> observer;  // null: none
  // A tensor that waits longer than warning_seconds is reported. A tensor that waits longer than
  // shutdown_seconds ends the job. 0: never.
  StallTimes stall{.warning_seconds = 60, .shutdown_seconds = 0};
  std::string host_name;  // for stall reports
};

class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  // `transport`, `control` and `in_flight` must outlive the worker. `control` is null if the set
  // has one rank. Fails when the options ask for an algorithm that is impossible on this transport,
  // or the autotune log cannot be written.
  static Result<std::unique_ptr<Worker>> make(const WorkerOptions& options, Transport& transport,
                                              ControlPlane* control, InFlight& in_flight);
  ~Worker();

  // Does everything that can be done without waiting. Returns whether there was anything to do. A
  // failure is final: afterwards only part() and abandon_batches() may be called.
  Result<bool> step();

  // Looks for tensors that have waited too long. To be called every few milliseconds while anything
  // is in flight or is_watching(). `inside_call` describes the call in which a thread of this rank
  // waits.
  Status tick(const std::string& inside_call);
  // Whether other ranks have not yet answered a question of the stall watch.
  bool is_watching() const { return stall_watch_.is_waiting(); }

  // Asks the coordinator for a plan that ends the engine on all ranks. That plan makes step() fail
  // with the reason.
  void request_shutdown(const Status& reason) { negotiator_.request_shutdown(reason); }
  // Called after such an end: sends the goodbye to the parent once. Returns whether all children
  // have sent their goodbyes and all messages have left this rank. Then the control plane can be
  // closed without loss of messages.
  bool part();

  // Whether a backend has batches whose end it has not reported.
  bool has_running_batches() const { return !running_.empty(); }
  // The engine ends. After the return no backend touches the memory of an operation.
  void abandon_batches() noexcept;

  // The time at which step() has to be called even if no message and no submission comes earlier.
  // time_point::max(): no such time.
  Clock::time_point next_timer() const;

 private:
  Worker(const WorkerOptions& options, Transport& transport, ControlPlane* control,
         InFlight& in_flight, std::unique_ptr<HostBackend> host_backend);

  void announce_queued();
  // Moves plans from the negotiator to plans_. A plan may change the capacity of the negotiator's
  // cache, which has to happen before the next plan.
  Status collect_plans();
  Status send_plans();
  Status apply(const Tunables& tunables);
  void tune(std::span<const Backend::Item> items);
  // A message of a neighbour in the tree.
  Status take(int from, ConstBytes message);
  // Whether complete tensors have waited for HOROVOD_CYCLE_TIME so that more tensors join their
  // plan. The first call starts the wait.
  bool cycle_time_has_passed();
  Status send(int to, ConstBytes message, Urgency urgency) {
    return control_->send(to, message, urgency);
  }
  RankReport describe() const;
  void report_stall();
  Status carry_out(Plan& plan);
  class RunningBatch;
  Status start(const Plan& plan, const Batch& batch);
  void finish(RunningBatch& batch, const Status& outcome);
  Backend& backend_for(const Response& response) const;
  // Whether a batch has finished.
  Result<bool> poll_backends();
  // Waits until all batches have ended, but at most for the timeout of a collective.
  Status drain_backends();
  void complete(std::span<TensorTask* const> tasks);

  WorkerOptions options_;
  ControlPlane* const control_;
  InFlight& in_flight_;
  Negotiator negotiator_;
  const std::unique_ptr<HostBackend> host_backend_;
  const int rank_;
  const std::vector<int> job_ranks_;
  const Topology& topology_;
  std::deque<Plan> plans_;
  uint64_t batches_ = 0;  // started so far: the number of the next one
  uint64_t planned_ = 0;  // tensors carried out so far: the number of the next one
  std::vector<std::unique_ptr<RunningBatch>> running_;  // those that run() did not finish
  StallWatch stall_watch_;
  std::string inside_call_;
  Clock::time_point next_look_at_oldest_;
  std::unique_ptr<Autotuner> autotuner_;  // only at the coordinator; null: autotune is off
  std::optional<AutotuneLog> autotune_log_;
  std::vector<uint64_t> tuned_;  // hashes of the names of one batch

  // When complete tensors are planned; max() while none wait.
  Clock::time_point cycle_ends_ = Clock::time_point::max();
  bool said_goodbye_ = false;
  size_t goodbyes_ = 0;
  bool warned_of_crowding_ = false;

  // Members only to reuse their memory: a step of known tensors allocates little.
  std::vector<Operation*> queued_;
  std::vector<TensorTask*> tasks_;
  std::unique_ptr<RunningBatch> next_batch_;  // the batch that is being started, or the next one
  std::vector<Operation::Ref> finished_;
};

}  // namespace hvd
