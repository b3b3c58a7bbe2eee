#include "engine/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace hvd {
namespace {

constexpr char kJoinName[] = "join";
// Scripts may use a new name for every call: from here on idle names are forgotten.
constexpr size_t kMostNames = 8192;

}  // namespace

InFlight::Time InFlight::now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Status InFlight::add(const std::shared_ptr<Operation>& operation) {
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return closed_;
  const Time since = now();
  for (size_t i = 0; i < operation->tasks.size(); ++i) {
    TensorTask& task = operation->tasks[i];
    InFlightName& name = names_[task.request.name];
    if (name.task == nullptr) {
      name = {&task, operation, since};
      task.name_in_flight = &name;
      continue;
    }
    for (size_t j = 0; j < i; ++j) *operation->tasks[j].name_in_flight = {};
    return invalid_argument(
        fmt::format("{} \"{}\": an operation of this name is in flight already; wait for it, or "
                    "give each tensor a name of its own",
                    to_string(task.request.type), task.request.name));
  }
  names_in_use_ += operation->tasks.size();
  if (operation->joins()) joins_.push_back(operation);
  last_submitted_ = operation->joins() ? kJoinName : operation->tasks.back().request.name;
  last_submission_ = since;
  queue_.push_back(operation);
  count_.fetch_add(1, std::memory_order_relaxed);
  queued_.store(true, std::memory_order_release);
  return Status::ok();
}

void InFlight::take_queued(std::vector<std::shared_ptr<Operation>>& queued) {
  queued.clear();
  MutexLock lock(mutex_);
  queued_.store(false, std::memory_order_relaxed);
  queued.swap(queue_);
}

size_t InFlight::queued() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void InFlight::remove(std::span<TensorTask* const> tasks,
                      std::vector<std::shared_ptr<Operation>>& finished) {
  MutexLock lock(mutex_);
  if (!tasks.empty() && tasks.back() != nullptr) last_completed_ = tasks.back()->request.name;
  for (TensorTask* task : tasks) {
    if (task == nullptr) continue;
    InFlightName& name = *task->name_in_flight;
    std::shared_ptr<Operation> operation = std::move(name.operation);
    name.task = nullptr;
    --names_in_use_;
    if (--operation->remaining > 0) continue;
    finished.push_back(std::move(operation));
    count_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (names_.size() > kMostNames + 2 * names_in_use_) forget_idle_names();
}

void InFlight::forget_idle_names() {
  std::erase_if(names_, [](const auto& entry) { return entry.second.task == nullptr; });
}

void InFlight::remove_joins(std::vector<std::shared_ptr<Operation>>& finished) {
  MutexLock lock(mutex_);
  count_.fetch_sub(joins_.size(), std::memory_order_relaxed);
  for (auto& join : joins_) finished.push_back(std::move(join));
  joins_.clear();
}

RankReport InFlight::describe() const {
  MutexLock lock(mutex_);
  const auto seconds_since = [at = now()](Time time) {
    return std::chrono::duration<double>(at - time).count();
  };
  RankReport report;
  report.answered = true;
  report.last_submitted = last_submitted_;
  report.last_completed = last_completed_;
  report.seconds_since_last_submission = seconds_since(last_submission_);
  for (const auto& [name, entry] : names_) {
    if (entry.task != nullptr) report.waiting.push_back({name, seconds_since(entry.since)});
  }
  std::sort(report.waiting.begin(), report.waiting.end(),
            [](const WaitingTensor& a, const WaitingTensor& b) { return a.seconds > b.seconds; });
  return report;
}

std::chrono::duration<double> InFlight::oldest() const {
  MutexLock lock(mutex_);
  const Time at = now();
  Time first = at;
  for (const auto& [name, entry] : names_) {
    if (entry.task != nullptr) first = std::min(first, entry.since);
  }
  return at - first;
}

std::vector<std::shared_ptr<Operation>> InFlight::close(const Status& reason) {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  std::vector<std::shared_ptr<Operation>> all = std::exchange(joins_, {});
  for (auto& [name, entry] : names_) {
    if (entry.task != nullptr) all.push_back(std::move(entry.operation));
  }
  // A group is in flight under each of its names.
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  names_.clear();
  names_in_use_ = 0;
  queue_.clear();
  queued_.store(false, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  return all;
}

}  // namespace hvd
