#include "capi/process.h"

#include <atomic>
#include <utility>

#include "base/config.h"
#include "base/log.h"

namespace hvd {
namespace {

constexpr size_t kMostAside = 4096;  // operations of some 600 bytes

}  // namespace

Process::Process(const Process* inherited) : inherited_(inherited) {
  aside_.reserve(kMostAside);  // so that putting one aside cannot fail
}

Process& Process::current() {
  static std::atomic<Process*> current{new Process(nullptr)};
  Process* process = current.load(std::memory_order_acquire);
  while (process->mark_.in_child()) {
    auto fresh = std::unique_ptr<Process>(new Process(process));
    if (current.compare_exchange_strong(process, fresh.get())) process = fresh.release();
  }
  return *process;
}

Process::Submission Process::begin_submission() {
  Submission begun;
  {
    MutexLock lock(mutex_);
    begun.job = job_;
    if (!aside_.empty()) {
      begun.operation = std::move(aside_.back());
      aside_.pop_back();
    }
  }
  if (begun.operation == nullptr) begun.operation = std::make_unique<hvd_operation>();
  return begun;
}

void Process::put_aside(std::unique_ptr<hvd_operation> operation) {
  MutexLock lock(mutex_);
  if (aside_.size() < kMostAside) aside_.push_back(std::move(operation));
}

Status Process::start(JobOptions options) {
  MutexLock changing(changing_);
  if (const auto running = job(); running != nullptr) {
    if (running->ended().is_ok()) return Status::ok();
  }
  leave();
  HVD_TRY_ASSIGN(options.config, Config::from_environment());
  configure_log(options.config.log_level, options.config.log_hide_time);
  const bool all_ranks = options.ranks.empty();
  if ((all_ranks ? options.config.size : static_cast<int>(options.ranks.size())) > 1) {
    const Deadline deadline = Deadline::after(options.config.timeout);
    HVD_TRY(meeting_.arrange(options.config, all_ranks, deadline));
  }
  options.round = rounds_[options.config.rendezvous]++;
  HVD_TRY_ASSIGN(std::unique_ptr<Job> made, Job::start(options));
  set_log_rank(made->place().rank);
  std::shared_ptr<Job> owned = own(std::move(made));
  MutexLock lock(mutex_);
  job_ = std::move(owned);
  return Status::ok();
}

void Process::shutdown() {
  MutexLock changing(changing_);
  leave();
}

std::shared_ptr<Job> Process::own(std::unique_ptr<Job> job) {
  {
    MutexLock lock(mutex_);
    alive_ = true;
  }
  return {job.release(), [this](Job* last) {
            delete last;
            // In a child it was a copy, and the lock may be held by a thread that is not there.
            if (mark_.in_child()) return;
            MutexLock lock(mutex_);
            alive_ = false;
            ended_.notify_all();
          }};
}

void Process::leave() {
  std::shared_ptr<Job> job;
  {
    MutexLock lock(mutex_);
    job = std::exchange(job_, nullptr);
  }
  if (job == nullptr) return;
  job->shutdown();
  const Deadline deadline = Deadline::after(job->config().timeout);
  job.reset();
  // Threads that wait for operations are on their way out: these have all failed by now.
  MutexLock lock(mutex_);
  while (alive_ && ended_.wait(mutex_, deadline)) {
  }
  set_log_rank(-1);
}

}  // namespace hvd
