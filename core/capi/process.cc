// SPDX-License-Identifier: Apache-2.0
#include "capi/process.h"

#include <fmt/format.h>

#include <atomic>
#include <set>
#include <utility>

#include "base/config.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "net/openssl.h"
#include "net/pmix.h"

namespace hvd {
namespace {

// Runs when the library is loaded.
[[maybe_unused]] const bool kPrepared = (Pmix::prepare_exit(), prepare_openssl(), true);

constexpr size_t kMostAside = 4096;  // operations, each of about 600 bytes

Status check_ranks(const Config& config, const std::vector<int>& ranks) {
  if (ranks.empty()) return Status::ok();
  const auto complaint = [&ranks](const std::string& why) {
    return invalid_argument(
        fmt::format("{} the ranks that init() was given: {}", why, fmt::join(ranks, ", ")));
  };
  std::set<int> seen;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= config.size)
      return complaint(fmt::format("{} ranks were started, but {} is among", config.size, rank));
    if (!seen.insert(rank).second) return complaint(fmt::format("rank {} is twice among", rank));
  }
  if (seen.count(config.rank) == 0)
    return complaint(fmt::format("rank {} is not among", config.rank));
  return Status::ok();
}

// Whether the list contains all ranks in order. Such a list means the same as an empty list, and
// some ranks may pass the full list while other ranks pass the empty one.
bool is_everybody(const std::vector<int>& ranks, int size) {
  if (ranks.size() != static_cast<size_t>(size)) return false;
  for (int rank = 0; rank < size; ++rank) {
    if (ranks[static_cast<size_t>(rank)] != rank) return false;
  }
  return true;
}

}  // namespace

Process::Process(const Process* inherited)
    : inherited_(inherited), secret_(inherited == nullptr ? nullptr : inherited->secret_.load()) {
  aside_.reserve(kMostAside);  // so that put_aside() cannot fail
}

Process& Process::current() {
  static std::atomic<Process*> current{new Process(nullptr)};
  Process* process = current.load(std::memory_order_acquire);
  while (process->fork_generation_.in_child()) {
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

void Process::take_secret() {
  SecretText found = take_secret_from_environment();
  if (found.empty()) return;
  MutexLock lock(mutex_);
  secrets_.push_back(std::make_unique<const SecretText>(std::move(found)));
  secret_ = secrets_.back().get();
}

Status Process::start(JobOptions options) {
  if (!changing_.lock()) return timeout_error("another thread starts or ends a job");
  const InterruptibleMutex::Lock changing(changing_);
  if (const auto running = job(); running != nullptr) {
    if (running->ended().is_ok()) return Status::ok();
  }
  leave();
  const SecretText* secret = secret_.load();
  HVD_TRY_ASSIGN(options.config,
                 Config::from_environment(secret == nullptr ? SecretText() : *secret));
  configure_log(options.config.log_level, options.config.log_hide_time);
  HVD_TRY(check_ranks(options.config, options.ranks));
  if (is_everybody(options.ranks, options.config.size)) options.ranks.clear();
  const Deadline deadline = Deadline::after(options.config.timeout);
  HVD_TRY(rendezvous_.arrange(options.config, options.ranks, deadline));
  options.round = rounds_[{options.config.rendezvous, options.ranks}]++;
  HVD_TRY_ASSIGN(std::unique_ptr<Job> made, Job::start(options));
  if (Interrupt::raised_before()) return timeout_error("interrupted");
  set_log_rank(made->assignment().rank);
  std::shared_ptr<Job> owned = own(std::move(made));
  MutexLock lock(mutex_);
  job_ = std::move(owned);
  return Status::ok();
}

void Process::shutdown() {
  if (!changing_.lock()) return;  // cannot happen: a shutdown cannot be interrupted
  const InterruptibleMutex::Lock changing(changing_);
  leave();
}

std::shared_ptr<Job> Process::own(std::unique_ptr<Job> job) {
  auto over = std::make_shared<bool>(false);
  {
    MutexLock lock(mutex_);
    over_ = over;
  }
  return {job.release(), [this, over](Job* last) {
            delete last;
            // In a forked child mutex_ is a copy, and it may be locked by a thread that the child
            // does not have.
            if (fork_generation_.in_child()) return;
            MutexLock lock(mutex_);
            *over = true;
            ended_.notify_all();
          }};
}

void Process::leave() {
  std::shared_ptr<Job> job;
  std::shared_ptr<bool> over;
  {
    MutexLock lock(mutex_);
    job = std::exchange(job_, nullptr);
    over = over_;
  }
  if (job == nullptr) return;
  job->shutdown();
  const Deadline deadline = Deadline::after(job->config().timeout);
  job.reset();
  // Threads that wait for operations are about to return: all operations have failed by now.
  MutexLock lock(mutex_);
  while (!*over && ended_.wait(mutex_, deadline)) {
  }
  set_log_rank(-1);
}

}  // namespace hvd
