// The part of an engine that one thread at a time runs: takes what was submitted, negotiates,
// carries plans out and completes operations. Never waits, except inside a collective that every
// rank has agreed to.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/status.h"
#include "engine/executor.h"
#include "engine/fusion.h"
#include "engine/in_flight.h"
#include "engine/negotiator.h"
#include "transport/control/port.h"
#include "transport/transport.h"

namespace hvd {

struct WorkerOptions {
  FusionOptions fusion;
  ExecutorOptions executor;
  size_t cache_capacity = 1024;
  // How long complete tensors may wait for company.
  std::chrono::duration<double, std::milli> cycle_time{0};
};

class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  // All outlive it. `port` is null when the set has one rank.
  static Result<std::unique_ptr<Worker>> make(const WorkerOptions& options, Transport& net,
                                              ControlPort* port, InFlight& in_flight);

  // Does what can be done now; whether there was anything. A failure is final: the worker is then
  // of no more use, except that part() may be called.
  Result<bool> step();

  // Asks all ranks to end. They do with a plan, which makes step() fail with the reason.
  void request_shutdown(const Status& reason) { negotiator_.request_shutdown(reason); }
  // After such an end: says goodbye to the neighbours; whether they have all done so, so that the
  // port can be closed and nobody misses anything.
  bool part();

  // When step() should be called even if nothing happens before; never is far away.
  Clock::time_point next_timer() const;

 private:
  Worker(const WorkerOptions& options, Transport& net, ControlPort* port, InFlight& in_flight,
         std::unique_ptr<Executor> executor);

  void submit_queued();
  Status send_plans();
  Status take(int from, ConstBytes message);
  bool company_has_come();
  Status carry_out(Plan& plan);
  Status run_batch(const Plan& plan, const Batch& batch, std::span<TensorTask* const> tasks);
  void complete(std::span<TensorTask* const> tasks);

  const WorkerOptions options_;
  ControlPort* const port_;
  InFlight& in_flight_;
  Negotiator negotiator_;
  std::unique_ptr<Executor> executor_;
  std::vector<int> job_ranks_;

  Clock::time_point company_until_ = Clock::time_point::max();  // when what is complete is planned
  bool said_goodbye_ = false;
  size_t goodbyes_ = 0;
  bool warned_of_crowding_ = false;

  // Kept for their memory.
  std::vector<TensorTask*> tasks_;
  std::vector<Executor::Item> items_;
  std::vector<TensorTask*> batch_tasks_;
  std::vector<std::shared_ptr<Operation>> finished_;
};

}  // namespace hvd
