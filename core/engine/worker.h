// SPDX-License-Identifier: Apache-2.0
// The part of an engine that one thread at a time runs: takes what was submitted, negotiates,
// carries plans out and completes operations. Never waits, except inside a collective that every
// rank has agreed to.
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
  // What autotune may change.
  Tunables tunables;
  // What it may not; where both say something, `tunables` does.
  FusionOptions fusion;
  HostBackendOptions host_backend;
  // Asked in this order whether they take a batch, before the host backend.
  std::vector<std::shared_ptr<Backend>> backends;
  size_t cache_capacity = Config::kDefaultCacheCapacity;
  bool warns_of_small_cache = false;  // the user has set that capacity
  // With these the coordinator tunes, and writes what it tried to the file, if one is named.
  std::optional<AutotuneOptions> autotune;
  std::string autotune_log;
  std::shared_ptr<EngineObserver> observer;  // null: none
  // A tensor that waits longer than the first is reported, one that waits longer than the second
  // ends the job; 0: neither.
  StallTimes stall{.warning_seconds = 60, .shutdown_seconds = 0};
  std::string host_name;  // for such reports
};

class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  // All outlive it. `control` is null when the set has one rank.
  static Result<std::unique_ptr<Worker>> make(const WorkerOptions& options, Transport& transport,
                                              ControlPlane* control, InFlight& in_flight);
  ~Worker();

  // Does what can be done now; whether there was anything. A failure is final: the worker is then
  // of no more use, except that part() may be called.
  Result<bool> step();

  // Time has passed: looks for tensors that have waited too long. To be called every few
  // milliseconds while anything is in flight or is_watching(). `inside_call` is what a thread of
  // this rank is waiting for.
  Status tick(const std::string& inside_call);
  // Whether answers of other ranks are outstanding.
  bool is_watching() const { return stall_watch_.is_waiting(); }

  // Asks all ranks to end. They do with a plan, which makes step() fail with the reason.
  void request_shutdown(const Status& reason) { negotiator_.request_shutdown(reason); }
  // After such an end: says goodbye to the neighbours; whether they have all done so, so that the
  // control plane can be closed and nobody misses anything.
  bool part();

  // Whether a backend has batches that it has not reported finished.
  bool has_running_batches() const { return !running_.empty(); }
  // The engine ends. After the return no backend touches the memory of an operation.
  void abandon_batches() noexcept;

  // When step() should be called even if nothing happens before; never is far away.
  Clock::time_point next_timer() const;

 private:
  Worker(const WorkerOptions& options, Transport& transport, ControlPlane* control,
         InFlight& in_flight, std::unique_ptr<HostBackend> host_backend);

  void announce_queued();
  // Takes plans from the negotiator, whose cache has to change right after the plan that says so.
  Status collect_plans();
  Status send_plans();
  Status apply(const Tunables& tunables);
  void tune(std::span<const Backend::Item> items);
  Status take(int from, ConstBytes message);
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
  // Waits for all batches, or for as long as a collective may take.
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
  uint64_t batches_ = 0;  // started so far: the next one's number
  uint64_t planned_ = 0;  // tensors of the plans that were carried out: the next one's number
  std::vector<std::unique_ptr<RunningBatch>> running_;  // those that run() did not finish
  StallWatch stall_watch_;
  std::string inside_call_;
  Clock::time_point next_look_at_oldest_;
  std::unique_ptr<Autotuner> autotuner_;  // at the coordinator
  std::optional<AutotuneLog> autotune_log_;
  std::vector<uint64_t> tuned_;

  Clock::time_point cycle_ends_ = Clock::time_point::max();  // when what is complete is planned
  bool said_goodbye_ = false;
  size_t goodbyes_ = 0;
  bool warned_of_crowding_ = false;

  // Kept for their memory.
  std::vector<Operation*> queued_;
  std::vector<TensorTask*> tasks_;
  std::unique_ptr<RunningBatch> next_batch_;  // the one that is being started, or will be
  std::vector<Operation::Ref> finished_;
};

}  // namespace hvd
