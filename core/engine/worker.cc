// SPDX-License-Identifier: Apache-2.0
#include "engine/worker.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "engine/messages.h"

namespace hvd {
namespace {

// Polls of the control plane between two checks for lost ranks.
constexpr int kPollsPerLook = 64;
// How often to look whether a backend has finished a batch that it runs in the background.
constexpr std::chrono::microseconds kBackendPoll{50};

// The interval at which to look for tensors that have waited for `seconds`. It is not short,
// because each look visits every name.
Worker::Clock::duration look_interval(double seconds) {
  return std::chrono::duration_cast<Worker::Clock::duration>(
      std::chrono::duration<double>(std::clamp(seconds / 20, 0.005, 1.0)));
}

NegotiatorOptions negotiator_options(const WorkerOptions& options, const Transport& transport) {
  NegotiatorOptions made = NegotiatorOptions::in_tree(transport.rank(), transport.topology());
  made.job_ranks = options.host_backend.job_ranks;
  made.cache_capacity = options.tunables.cache_enabled ? options.cache_capacity : 0;
  made.groups_matter = options.fusion.within_groups_only;
  return made;
}

}  // namespace

// One batch that a backend carries out. Most batches are finished inside Backend::run() and never
// enter running_. The object of such a batch, with its memory, serves the next batch.
class Worker::RunningBatch final : public Completion {
 public:
  explicit RunningBatch(Worker& worker) : worker_(worker) {}

  void prepare(uint64_t number_of_batch) {
    number = number_of_batch;
    is_finished = false;
    items.clear();
    tasks.clear();
  }
  void finish(const Status& outcome) override {
    HVD_CHECK(!is_finished);
    is_finished = true;
    worker_.finish(*this, outcome);
  }

  uint64_t number = 0;
  bool is_finished = false;
  std::vector<Backend::Item> items;
  std::vector<TensorTask*> tasks;  // of the items
  // Keeps the items' responses alive after their plan.
  std::vector<std::shared_ptr<const Response>> responses;

 private:
  Worker& worker_;
};

Result<std::unique_ptr<Worker>> Worker::make(const WorkerOptions& options, Transport& transport,
                                             ControlPlane* control, InFlight& in_flight) {
  HVD_TRY_ASSIGN(auto host_backend, HostBackend::make(transport, options.host_backend));
  std::unique_ptr<Worker> worker(
      new Worker(options, transport, control, in_flight, std::move(host_backend)));
  HVD_TRY(worker->apply(options.tunables));
  if (!options.autotune || transport.rank() != 0) return worker;
  worker->autotuner_ = std::make_unique<Autotuner>(*options.autotune, options.tunables);
  if (!options.autotune_log.empty()) {
    HVD_TRY_ASSIGN(worker->autotune_log_, AutotuneLog::create(options.autotune_log));
  }
  return worker;
}

Worker::Worker(const WorkerOptions& options, Transport& transport, ControlPlane* control,
               InFlight& in_flight, std::unique_ptr<HostBackend> host_backend)
    : options_(options),
      control_(control),
      in_flight_(in_flight),
      negotiator_(negotiator_options(options, transport)),
      host_backend_(std::move(host_backend)),
      rank_(transport.rank()),
      job_ranks_(options.host_backend.job_ranks),
      topology_(transport.topology()),
      stall_watch_(std::chrono::duration<double>(options.stall.warning_seconds), transport.rank(),
                   transport.topology(), job_ranks_) {
  negotiator_.set_observer(options_.observer.get());
  next_batch_ = std::make_unique<RunningBatch>(*this);
}

Worker::~Worker() = default;

// The order matters for latency: submissions first, then messages, then a plan if this rank is the
// coordinator. This rank forwards a plan to its children before it carries the plan out, so that
// the children start at once.
Result<bool> Worker::step() {
  bool progress = false;
  if (!running_.empty()) {
    HVD_TRY_ASSIGN(progress, poll_backends());
  }
  if (in_flight_.has_queued()) {
    announce_queued();
    progress = true;
  }
  if (control_ != nullptr) {
    HVD_TRY_ASSIGN(const int received, control_->receive([this](int from, ConstBytes message) {
      return take(from, message);
    }));
    progress |= received > 0;
  }
  if (options_.observer != nullptr) options_.observer->on_step();
  if (negotiator_.can_decide() && cycle_time_has_passed()) negotiator_.decide();
  HVD_TRY(collect_plans());
  HVD_TRY(negotiator_.flush(
      [this](int to, ConstBytes message, Urgency urgency) { return send(to, message, urgency); }));
  while (!plans_.empty()) {
    Plan plan = std::move(plans_.front());
    plans_.pop_front();
    HVD_TRY(send_plans());
    HVD_TRY(carry_out(plan));
    progress = true;
  }
  return progress;
}

// A plan that is longer than the ring buffer to a child is sent in several parts. The child needs
// the whole plan before this rank waits for the child in a collective. So this function waits until
// all parts have left. This wait ends, because the child reads while it waits for the plan. It does
// not wait for messages to the parent: the parent may already be in that collective, where it does
// not read.
Status Worker::send_plans() {
  if (control_ == nullptr || control_->drained_below()) return Status::ok();
  const Deadline deadline = Deadline::after(options_.host_backend.timeout);
  for (int polls = 1; !control_->drained_below(); ++polls) {
    const auto received =
        control_->receive([this](int from, ConstBytes message) { return take(from, message); });
    if (!received.is_ok()) return received.status();
    if (polls % kPollsPerLook == 0) HVD_TRY(control_->check());
    if (deadline.expired()) return timeout_error("a plan could not be sent in time");
    sched_yield();
  }
  return Status::ok();
}

void Worker::announce_queued() {
  in_flight_.take_queued(queued_);
  for (Operation* operation : queued_) {
    if (operation->joins()) negotiator_.join();
    for (TensorTask& task : operation->tasks) {
      negotiator_.announce(task.request, operation->group, &task, task.name_in_flight->number);
    }
  }
  queued_.clear();
}

Status Worker::take(int from, ConstBytes message) {
  HVD_TRY_ASSIGN(const MessageKind kind, kind_of(message));
  if (kind == MessageKind::kGoodbye) {
    ++goodbyes_;
    return Status::ok();
  }
  if (kind == MessageKind::kAlarm || kind == MessageKind::kQuestion ||
      kind == MessageKind::kReports) {
    HVD_TRY(stall_watch_.receive(
        from, message, Clock::now(), [this] { return describe(); },
        [this](int to, ConstBytes out, Urgency urgency) { return send(to, out, urgency); }));
    report_stall();
    return Status::ok();
  }
  const Status taken = negotiator_.receive(from, message);
  if (taken.is_ok()) return collect_plans();
  return taken.with_context(fmt::format("message of rank {}", job_ranks_[from]));
}

Status Worker::collect_plans() {
  for (Plan plan; negotiator_.next_plan(plan);) {
    if (!plan.tunables.empty()) {
      HVD_TRY_ASSIGN(const Tunables tunables, decode_tunables(plan.tunables));
      negotiator_.set_cache_capacity(tunables.cache_enabled ? options_.cache_capacity : 0);
    }
    plans_.push_back(std::move(plan));
  }
  return Status::ok();
}

Status Worker::apply(const Tunables& tunables) {
  options_.tunables = tunables;
  options_.fusion.threshold = tunables.fusion_threshold;
  AllreduceOptions allreduce = options_.host_backend.allreduce;
  allreduce.algorithm = tunables.algorithm;
  allreduce.chunk_bytes = tunables.chunk_bytes;
  const bool has_two_levels = topology_.hosts() > 1 && topology_.largest_host() > 1;
  if (tunables.hierarchical_allreduce && has_two_levels) {
    allreduce.algorithm = AllreduceAlgorithm::kTwoLevel;
  }
  host_backend_->set_hierarchical_allgather(tunables.hierarchical_allgather);
  return host_backend_->set_allreduce(allreduce);
}

// Reports a finished batch to the autotuner; the next plan contains the settings to try next.
void Worker::tune(std::span<const Backend::Item> items) {
  if (autotuner_->done() || items.front().response->request.type != RequestType::kAllreduce) return;
  int64_t bytes = 0;
  tuned_.clear();
  for (const Backend::Item& item : items) {
    const Request& request = item.response->request;
    tuned_.push_back(std::hash<std::string>()(request.name));
    bytes += static_cast<int64_t>(request.bytes());
  }
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch());
  if (const auto next = autotuner_->record(tuned_, bytes, now.count())) {
    negotiator_.set_tunables(encode(*next));
  }
  const std::vector<std::string> rows = autotuner_->take_rows();
  if (rows.empty() || !autotune_log_) return;
  if (const Status written = autotune_log_->append(rows); !written.is_ok()) {
    HVD_LOG(kWarning, "{}; autotune continues without its log", written.message());
    autotune_log_.reset();
  }
}

bool Worker::cycle_time_has_passed() {
  // A single rank has no other ranks to wait for, and no thread that would call step() later.
  if (control_ == nullptr || options_.tunables.cycle_time_ms <= 0) return true;
  const Clock::time_point now = Clock::now();
  if (cycle_ends_ == Clock::time_point::max()) {
    const std::chrono::duration<double, std::milli> wait(options_.tunables.cycle_time_ms);
    cycle_ends_ = now + std::chrono::duration_cast<Clock::duration>(wait);
  }
  if (now < cycle_ends_) return false;
  cycle_ends_ = Clock::time_point::max();
  return true;
}

Worker::Clock::time_point Worker::next_timer() const {
  return running_.empty() ? cycle_ends_ : std::min(cycle_ends_, Clock::now() + kBackendPoll);
}

Status Worker::carry_out(Plan& plan) {
  if (options_.observer != nullptr) options_.observer->on_plan(plan);
  tasks_.clear();
  for (const Plan::Detail& detail : plan.details) {
    tasks_.push_back(static_cast<TensorTask*>(detail.user_data));
  }
  for (size_t i = 0; i < plan.responses.size(); ++i) {
    const Response& response = *plan.responses[i];
    const uint64_t number = planned_++;
    if (tasks_[i] != nullptr) tasks_[i]->operation->set_number(number);
    if (tasks_[i] == nullptr && !plan.joined_here) {
      return internal_error(fmt::format("{} \"{}\" was planned, but this rank has not asked for it",
                                        to_string(response.request.type), response.request.name));
    }
    if (response.error.is_ok() || tasks_[i] == nullptr) continue;
    tasks_[i]->operation->note(response.error);
    complete({&tasks_[i], 1});
  }
  for (const Batch& batch : fuse(plan, options_.fusion)) {
    HVD_TRY(start(plan, batch));
  }
  if (!plan.tunables.empty()) {
    HVD_TRY_ASSIGN(const Tunables tunables, decode_tunables(plan.tunables));
    HVD_TRY(apply(tunables));
  }
  if (plan.joined_here) in_flight_.renew_joins();
  if (plan.last_joined) {
    in_flight_.remove_joins(finished_);
    for (const auto& join : finished_) join->set_last_joined(job_ranks_[*plan.last_joined]);
    for (const auto& join : std::exchange(finished_, {})) join->finish();
  }
  if (options_.warns_of_small_cache && negotiator_.is_coordinator() &&
      negotiator_.cache().crowded_out() > 0 && !std::exchange(warned_of_crowding_, true)) {
    HVD_LOG(kWarning,
            "more than {} different tensors: those used longest ago are negotiated by name again, "
            "which is slower; set HOROVOD_CACHE_CAPACITY to more than the number of tensors",
            options_.cache_capacity);
  }
  if (!plan.shutdown.is_ok()) HVD_TRY(drain_backends());
  return plan.shutdown;
}

Status Worker::start(const Plan& plan, const Batch& batch) {
  RunningBatch& started = *next_batch_;
  started.prepare(batches_++);
  for (const uint32_t item : batch.items) {
    started.items.push_back({plan.responses[item].get(), tasks_[item]});
    started.tasks.push_back(tasks_[item]);
  }
  if (options_.observer != nullptr) options_.observer->on_batch_start(plan, batch, started.number);
  HVD_TRY(backend_for(*started.items.front().response).run(started.items, started));
  if (started.is_finished) return Status::ok();
  // The batch may live longer than the plan.
  for (const uint32_t item : batch.items) started.responses.push_back(plan.responses[item]);
  running_.push_back(nullptr);
  running_.back() = std::exchange(next_batch_, std::make_unique<RunningBatch>(*this));
  return Status::ok();
}

void Worker::finish(RunningBatch& batch, const Status& outcome) {
  if (options_.observer != nullptr) options_.observer->on_batch_end(batch.number);
  if (!outcome.is_ok()) {
    for (TensorTask* task : batch.tasks) {
      if (task != nullptr) task->operation->note(outcome);
    }
  }
  complete(batch.tasks);
  if (autotuner_ != nullptr && outcome.is_ok()) tune(batch.items);
}

Backend& Worker::backend_for(const Response& response) const {
  for (const auto& backend : options_.backends) {
    if (backend->takes(response)) return *backend;
  }
  return *host_backend_;
}

Result<bool> Worker::poll_backends() {
  for (const auto& backend : options_.backends) HVD_TRY(backend->poll());
  const size_t finished = std::erase_if(
      running_, [](const std::unique_ptr<RunningBatch>& batch) { return batch->is_finished; });
  return finished > 0;
}

// All ranks agreed on these operations before the shutdown, so the shutdown should not make them
// fail. This blocks the thread that runs the engine until the batches end, but at most for the
// timeout of a collective.
Status Worker::drain_backends() {
  const Deadline deadline = Deadline::after(options_.host_backend.timeout);
  while (!running_.empty() && !deadline.expired()) {
    HVD_TRY_ASSIGN(const bool progress, poll_backends());
    if (!progress) sched_yield();
  }
  return Status::ok();
}

void Worker::abandon_batches() noexcept {
  for (const auto& backend : options_.backends) backend->abandon();
  running_.clear();
}

void Worker::complete(std::span<TensorTask* const> tasks) {
  in_flight_.remove(tasks, finished_);
  for (const auto& operation : finished_) operation->finish();
  finished_.clear();
  in_flight_.enqueue_held();
}

Status Worker::tick(const std::string& inside_call) {
  if (control_ == nullptr) return Status::ok();
  inside_call_ = inside_call;
  const Clock::time_point now = Clock::now();
  std::chrono::duration<double> oldest{0};
  if (now >= next_look_at_oldest_) {  // not in every call: oldest() visits every name
    oldest = in_flight_.oldest();
    next_look_at_oldest_ = now + look_interval(options_.stall.warning_seconds);
  }
  HVD_TRY(stall_watch_.tick(
      now, oldest, [this] { return describe(); },
      [this](int to, ConstBytes out, Urgency urgency) { return send(to, out, urgency); }));
  report_stall();
  return Status::ok();
}

RankReport Worker::describe() const {
  RankReport report = in_flight_.describe();
  report.rank = job_ranks_[rank_];
  report.host = options_.host_name;
  report.inside_call = inside_call_;
  return report;
}

// At the coordinator, once all ranks have answered or the time for answers is over.
void Worker::report_stall() {
  auto answers = stall_watch_.take_answers();
  if (!answers) return;
  for (RankReport& report : *answers) {
    const auto found = std::find(job_ranks_.begin(), job_ranks_.end(), report.rank);
    report.joined = found != job_ranks_.end() &&
                    negotiator_.has_joined(static_cast<int>(found - job_ranks_.begin()));
  }
  const StallReport report = make_stall_report(*answers, options_.stall);
  if (!report.text.empty()) HVD_LOG(kWarning, "{}", report.text);
  if (report.expired.empty()) return;
  HVD_LOG(kError, "ending the job: HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is {}",
          options_.stall.shutdown_seconds);
  negotiator_.request_shutdown(
      aborted(fmt::format("stalled for longer than HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={}: {}",
                          options_.stall.shutdown_seconds, report.text)));
}

bool Worker::part() {
  if (control_ == nullptr) return true;
  const ControlTree& tree = control_->tree();
  if (!std::exchange(said_goodbye_, true) && tree.parent >= 0) {
    const std::byte goodbye[] = {static_cast<std::byte>(MessageKind::kGoodbye)};
    (void)control_->send(tree.parent, goodbye, Urgency::kUrgent);
  }
  const auto received = control_->receive([this](int, ConstBytes message) {
    const auto kind = kind_of(message);
    if (kind.is_ok() && *kind == MessageKind::kGoodbye) ++goodbyes_;
    return Status::ok();
  });
  // After a failure a neighbour is lost and will not send its goodbye.
  return !received.is_ok() || (goodbyes_ >= tree.children.size() && control_->drained());
}

}  // namespace hvd
