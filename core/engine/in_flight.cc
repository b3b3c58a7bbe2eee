// SPDX-License-Identifier: Apache-2.0
#include "engine/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>

namespace hvd {
namespace {

const std::string kJoinName = "join";
// Scripts may use a new name for every call: with more names than this, idle ones are erased.
constexpr size_t kMostNames = 8192;

}  // namespace

// CLOCK_MONOTONIC_COARSE: exact to a tick of the kernel (1 to 10 ms), enough for stall reports.
InFlight::Time InFlight::now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

uint32_t numbers_for(size_t cache_capacity) {
  constexpr size_t kFewest = 60;  // that many can be negotiated at the same time with any cache
  if (cache_capacity == 0) return kMostNumbers;
  return static_cast<uint32_t>(std::clamp<size_t>(cache_capacity / 2, kFewest, kMostNumbers));
}

Status InFlight::add(Operation& operation) {
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return closed_;
  const Time since = now();
  Sequence* sequence = operation.is_unnamed ? &number(operation) : nullptr;
  const bool waits_in_line = sequence != nullptr && !sequence->held.empty();
  const TensorTask* in_use = waits_in_line ? nullptr : take_names(operation, since);
  if (in_use != nullptr && sequence == nullptr) {
    return invalid_argument(
        fmt::format("{} \"{}\": an operation of this name is in flight already; wait for it, or "
                    "give each tensor a name of its own",
                    to_string(in_use->request.type), in_use->request.name));
  }
  if (operation.tasks.size() > 1) operation.group = ++groups_;
  if (waits_in_line || in_use != nullptr) {
    sequence->held.push_back(operation.ref());
    ++held_;
  } else {
    enqueue(operation.ref());
  }
  if (sequence != nullptr) ++sequence->next;
  last_submission_ = since;
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return Status::ok();
}

const TensorTask* InFlight::take_names(Operation& operation, Time since) {
  // All allocations come first: if one of them fails, the call leaves behind only names that no
  // task uses.
  if (queue_.size() == queue_.capacity()) queue_.reserve(2 * queue_.size() + 16);
  const std::string* last = last_submitted_;
  for (TensorTask& task : operation.tasks) {
    auto& [text, name] = *names_.try_emplace(task.request.name).first;
    task.name_in_flight = &name;
    last = &text;
  }
  for (size_t i = 0; i < operation.tasks.size(); ++i) {
    TensorTask& task = operation.tasks[i];
    if (task.name_in_flight->task != nullptr) {
      for (size_t j = 0; j < i; ++j) operation.tasks[j].name_in_flight->task = nullptr;
      return &task;
    }
    task.name_in_flight->task = &task;
    task.name_in_flight->since = since;
  }
  last_submitted_ = last;
  names_in_use_ += operation.tasks.size();
  return nullptr;
}

InFlight::Sequence& InFlight::number(Operation& operation) {
  Sequence& sequence = sequences_[operation.tasks.front().request.name];
  const fmt::format_int number(sequence.next % numbers_);
  const size_t count = operation.tasks.size();
  for (size_t i = 0; i < count; ++i) {
    std::string& name = operation.tasks[i].request.name;
    name.append(1, '.').append(number.data(), number.size());
    if (count > 1) fmt::format_to(std::back_inserter(name), "_{}of{}", i + 1, count);
  }
  return sequence;
}

void InFlight::enqueue(Operation::Ref ref) {
  Operation* operation = ref.get();
  if (operation->joins()) {
    joins_.push_back({std::move(ref), now()});
    last_submitted_ = &kJoinName;
  } else {
    (void)ref.release();  // the names hold the ref until the last of them is freed
  }
  queue_.push_back(operation);  // take_names() has made room
  queued_.store(true, std::memory_order_release);
}

// The oldest first: operations of one name must not overtake each other.
void InFlight::enqueue_held() {
  if (held_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(mutex_);
  const Time since = now();
  for (auto& [label, sequence] : sequences_) {
    auto& held = sequence.held;
    while (!held.empty() && take_names(*held.front(), since) == nullptr) {
      enqueue(std::move(held.front()));
      held.pop_front();
      --held_;
    }
  }
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

void InFlight::remove(std::span<TensorTask* const> tasks, std::vector<Operation::Ref>& finished) {
  const size_t before = finished.size();
  finished.reserve(before + tasks.size());  // from here on only the copy of a name can throw
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return;  // close() has passed them to its callback
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

// The name that last_submitted_ points to stays, for the next stall report.
void InFlight::forget_idle_names() {
  std::erase_if(names_, [last = last_submitted_](const auto& entry) {
    return entry.second.task == nullptr && &entry.first != last;
  });
}

void InFlight::renew_joins() {
  MutexLock lock(mutex_);
  for (Join& join : joins_) join.since = now();
}

void InFlight::remove_joins(std::vector<Operation::Ref>& finished) {
  MutexLock lock(mutex_);
  finished.reserve(finished.size() + joins_.size());
  count_.store(count_.load(std::memory_order_relaxed) - joins_.size(), std::memory_order_relaxed);
  for (auto& join : joins_) finished.push_back(std::move(join.operation));
  joins_.clear();
  for (auto& [label, sequence] : sequences_) sequence.next = 0;
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
  if (!joins_.empty()) report.waiting.push_back({kJoinName, seconds_since(joins_.front().since)});
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
  if (!joins_.empty()) first = std::min(first, joins_.front().since);
  return at - first;
}

Operation* InFlight::unlink_all(const Status& reason) noexcept {
  MutexLock lock(mutex_);
  if (closed_.is_ok()) closed_ = reason;
  Operation* first = nullptr;
  const auto link = [&first](Operation& operation) {
    operation.next_closed = std::exchange(first, &operation);
  };
  for (Join& join : joins_) link(*join.operation.release());
  joins_.clear();
  for (auto& [name, entry] : names_) {
    if (entry.task == nullptr) continue;
    // A group is found once for each of its tensors that is not done. The last of these adds it to
    // the list.
    if (--entry.task->operation->remaining == 0) link(*entry.task->operation);
  }
  for (auto& [label, sequence] : sequences_) {
    for (auto& held : sequence.held) link(*held.release());
  }
  names_.clear();
  names_in_use_ = 0;
  sequences_.clear();
  held_ = 0;
  last_submitted_ = nullptr;
  queue_.clear();
  queued_.store(false, std::memory_order_relaxed);
  count_.store(0, std::memory_order_relaxed);
  return first;
}

}  // namespace hvd
