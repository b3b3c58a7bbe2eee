#include "engine/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace hvd {
namespace {

constexpr char kJoinName[] = "join";

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
    if (by_name_.try_emplace(task.request.name, Entry{&task, operation, since}).second) continue;
    for (size_t j = 0; j < i; ++j) by_name_.erase(operation->tasks[j].request.name);
    return invalid_argument(
        fmt::format("{} \"{}\": an operation of this name is in flight already; wait for it, or "
                    "give each tensor a name of its own",
                    to_string(task.request.type), task.request.name));
  }
  if (operation->joins()) joins_.push_back(operation);
  last_submitted_ = operation->joins() ? kJoinName : operation->tasks.back().request.name;
  last_submission_ = since;
  queue_.push_back(operation);
  count_.fetch_add(1, std::memory_order_relaxed);
  queued_.store(true, std::memory_order_release);
  return Status::ok();
}

std::vector<std::shared_ptr<Operation>> InFlight::take_queued() {
  MutexLock lock(mutex_);
  queued_.store(false, std::memory_order_relaxed);
  return std::exchange(queue_, {});
}

size_t InFlight::queued() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void InFlight::find(const Plan& plan, std::vector<TensorTask*>& tasks) const {
  MutexLock lock(mutex_);
  for (const auto& response : plan.responses) {
    const auto found = by_name_.find(response->request.name);
    tasks.push_back(found == by_name_.end() ? nullptr : found->second.task);
  }
}

void InFlight::remove(std::span<TensorTask* const> tasks,
                      std::vector<std::shared_ptr<Operation>>& finished) {
  MutexLock lock(mutex_);
  if (!tasks.empty() && tasks.back() != nullptr) last_completed_ = tasks.back()->request.name;
  for (TensorTask* task : tasks) {
    if (task == nullptr) continue;
    const auto found = by_name_.find(task->request.name);
    if (--task->operation->remaining == 0) {
      finished.push_back(std::move(found->second.operation));
      count_.fetch_sub(1, std::memory_order_relaxed);
    }
    by_name_.erase(found);
  }
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
  for (const auto& [name, entry] : by_name_) {
    report.waiting.push_back({std::string(name), seconds_since(entry.since)});
  }
  std::sort(report.waiting.begin(), report.waiting.end(),
            [](const WaitingTensor& a, const WaitingTensor& b) { return a.seconds > b.seconds; });
  return report;
}

std::chrono::duration<double> InFlight::oldest() const {
  MutexLock lock(mutex_);
  const Time at = now();
  Time first = at;
  for (const auto& [name, entry] : by_name_) first = std::min(first, entry.since);
  return at - first;
}

std::vector<std::shared_ptr<Operation>> InFlight::close(const Status& reason) {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  std::vector<std::shared_ptr<Operation>> all = std::exchange(joins_, {});
  for (auto& [name, entry] : by_name_) all.push_back(std::move(entry.operation));
  // A group is in flight under each of its names.
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  by_name_.clear();
  queue_.clear();
  queued_.store(false, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  return all;
}

}  // namespace hvd
