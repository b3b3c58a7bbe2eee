#include "engine/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

namespace hvd {
namespace {

const std::string kJoinName = "join";
// Scripts may use a new name for every call: from here on idle names are forgotten.
constexpr size_t kMostNames = 8192;

}  // namespace

InFlight::Time InFlight::now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Status InFlight::add(Operation& operation) {
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return closed_;
  const Time since = now();
  for (size_t i = 0; i < operation.tasks.size(); ++i) {
    TensorTask& task = operation.tasks[i];
    auto& [text, name] = *names_.try_emplace(task.request.name).first;
    if (name.task == nullptr) {
      name.task = &task;
      name.since = since;
      task.name_in_flight = &name;
      last_submitted_ = &text;
      continue;
    }
    for (size_t j = 0; j < i; ++j) operation.tasks[j].name_in_flight->task = nullptr;
    return invalid_argument(
        fmt::format("{} \"{}\": an operation of this name is in flight already; wait for it, or "
                    "give each tensor a name of its own",
                    to_string(task.request.type), task.request.name));
  }
  names_in_use_ += operation.tasks.size();
  if (operation.tasks.size() > 1) operation.group = ++groups_;
  Operation::Share share = operation.share();
  if (operation.joins()) {
    joins_.push_back(std::move(share));
    last_submitted_ = &kJoinName;
  } else {
    (void)share.release();  // its names have it, until the last of them is removed
  }
  last_submission_ = since;
  queue_.push_back(&operation);
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  queued_.store(true, std::memory_order_release);
  return Status::ok();
}

void InFlight::take_queued(std::vector<Operation*>& queued) {
  queued.clear();
  MutexLock lock(mutex_);
  queued_.store(false, std::memory_order_relaxed);
  queued.swap(queue_);
}

size_t InFlight::queued() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void InFlight::remove(std::span<TensorTask* const> tasks, std::vector<Operation::Share>& finished) {
  const size_t before = finished.size();
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return;  // close() has returned them
  if (!tasks.empty() && tasks.back() != nullptr) last_completed_ = tasks.back()->request.name;
  for (TensorTask* task : tasks) {
    if (task == nullptr) continue;
    task->name_in_flight->task = nullptr;
    --names_in_use_;
    if (--task->operation->remaining == 0) finished.emplace_back(task->operation);
  }
  count_.store(count_.load(std::memory_order_relaxed) - (finished.size() - before),
               std::memory_order_relaxed);
  if (names_.size() > kMostNames + 2 * names_in_use_) forget_idle_names();
}

void InFlight::forget_idle_names() {
  std::erase_if(names_, [last = last_submitted_](const auto& entry) {
    return entry.second.task == nullptr && &entry.first != last;
  });
}

void InFlight::remove_joins(std::vector<Operation::Share>& finished) {
  MutexLock lock(mutex_);
  count_.store(count_.load(std::memory_order_relaxed) - joins_.size(), std::memory_order_relaxed);
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
  if (last_submitted_ != nullptr) report.last_submitted = *last_submitted_;
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

std::vector<Operation::Share> InFlight::close(const Status& reason) {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  std::vector<Operation::Share> all = std::exchange(joins_, {});
  for (auto& [name, entry] : names_) {
    if (entry.task == nullptr) continue;
    // A group is in flight under each of its names that is not done.
    if (--entry.task->operation->remaining == 0) all.emplace_back(entry.task->operation);
  }
  names_.clear();
  names_in_use_ = 0;
  last_submitted_ = nullptr;
  queue_.clear();
  queued_.store(false, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  return all;
}

}  // namespace hvd
