// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace hvd {
namespace {

constexpr int kLowestPriority = 19;
constexpr std::chrono::microseconds kGathering = std::chrono::milliseconds(20);
constexpr std::chrono::microseconds kForLong = std::chrono::hours(1);
// More tensors take several records.
constexpr size_t kTensorsPerRecord = 4096;
constexpr size_t kMostDimensions = 64;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename T>
std::byte* put(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof(T));
  return to + sizeof(T);
}

}  // namespace

std::string Timeline::path_for_rank(const std::string& path, int rank) {
  std::filesystem::path named(path);
  const std::string extension = named.extension().string();
  return named.replace_extension().string() + fmt::format(".{}{}", rank, extension);
}

Timeline::~Timeline() {
  MutexLock lock(control_);
  if (!writer_.joinable()) return;
  if (mark_.in_child()) {
    writer_.detach();  // the thread does not exist in a forked child
    return;
  }
  if (Status stopped = stop_locked(); !stopped.is_ok()) {
    HVD_LOG(kWarning, "{}", stopped.message());
  }
}

// Recording ---------------------------------------------------------------------------------------

TensorId Timeline::tensor(std::string_view name) {
  MutexLock lock(recording_);
  if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
  auto& link = names_.empty() ? first_name_ : names_.back().next;
  const Name& added = names_.emplace_back(name);
  link.store(&added, std::memory_order_release);
  const auto id = static_cast<TensorId>(names_.size() - 1);
  ids_.emplace(added.text, id);
  return id;
}

void Timeline::record_some(TraceRecord record, std::span<const TensorId> tensors) {
  MutexLock lock(recording_);
  record.time = now();
  do {
    const auto some = tensors.first(std::min(tensors.size(), kTensorsPerRecord));
    tensors = tensors.subspan(some.size());
    record.count = static_cast<uint32_t>(some.size());
    record.same_tensors = !some.empty() && some.size() == recorded_.size() &&
                          std::memcmp(some.data(), recorded_.data(), some.size_bytes()) == 0;
    const size_t bytes = record.same_tensors ? 0 : some.size_bytes();
    std::byte* to = reserve(record, bytes);
    if (to == nullptr) continue;
    if (bytes != 0) {
      std::memcpy(to, some.data(), bytes);
      recorded_.assign(some.begin(), some.end());
    }
    commit();
  } while (!tensors.empty());
}

bool Timeline::shape(TensorId tensor, DType dtype, std::span<const int64_t> shape) {
  if (!enabled()) return false;
  const auto known = shape.first(std::min(shape.size(), kMostDimensions));
  const TraceRecord record{.kind = Kind::kShape,
                           .detail = static_cast<uint8_t>(dtype),
                           .argument = static_cast<int32_t>(tensor),
                           .count = static_cast<uint32_t>(known.size())};
  MutexLock lock(recording_);
  std::byte* to = ring_.reserve(sizeof(record) + known.size_bytes());
  if (to == nullptr) return false;
  to = put(to, record);
  for (const int64_t dimension : known) to = put(to, dimension);
  commit();
  return true;
}

std::byte* Timeline::reserve(const TraceRecord& record, size_t bytes) {
  std::byte* to = ring_.reserve(sizeof(record) + bytes);
  if (to == nullptr) {
    dropped_.fetch_add(std::max(record.count, uint32_t{1}), std::memory_order_relaxed);
    return nullptr;
  }
  return put(to, record);
}

void Timeline::commit() {
  ring_.commit();
  doorbell_.ring(ring_.is_half_full() ? Urgency::kUrgent : Urgency::kUsual);
}

// Start and stop ----------------------------------------------------------------------------------

Status Timeline::start(const std::string& path, bool mark_cycles) {
  if (path.empty()) return invalid_argument("timeline: the path is empty; name a file to write");
  MutexLock lock(control_);
  // Also if the path is another name of the same file: two writers would overwrite each other.
  std::error_code absent;
  if (writer_.joinable() && (path == path_ || std::filesystem::equivalent(path, path_, absent))) {
    if (enabled()) return Status::ok();
    (void)stop_locked();  // its failure was reported before
  }
  auto events = TraceEvents::create(path, rank_);
  if (!events.is_ok()) return events.status();
  if (writer_.joinable()) {
    if (Status stopped = stop_locked(); !stopped.is_ok()) {
      HVD_LOG(kWarning, "{}", stopped.message());
    }
  }
  if (!std::exchange(populated_, true)) ring_.populate();
  path_ = path;
  events_ = std::move(events).value();
  failure_ = Status::ok();
  dropped_before_ = dropped_.load(std::memory_order_relaxed);
  stopping_.store(false);
  writer_ = start_thread("hvd-timeline", [this] { write_until_stopped(); });
  mark_cycles_.store(mark_cycles, std::memory_order_release);
  enabled_.store(true, std::memory_order_release);
  return Status::ok();
}

Status Timeline::stop() {
  MutexLock lock(control_);
  return writer_.joinable() ? stop_locked() : Status::ok();
}

// The writer only finishes its block, because at its priority the rest could take long. The calling
// thread writes the rest.
Status Timeline::stop_locked() {
  enabled_.store(false, std::memory_order_relaxed);
  mark_cycles_.store(false, std::memory_order_relaxed);
  stopping_.store(true);
  doorbell_.ring(Urgency::kUrgent);
  writer_.join();
  writer_ = {};
  events_->file().set_gives_way(false);
  if (failure_.is_ok()) failure_ = drain(/*until_stopped=*/false);
  // Also after a failure: the events in the file need the closing bracket.
  const Status closed = events_->file().close();
  events_.reset();
  return failure_.is_ok() ? closed : failure_;
}

// The writer --------------------------------------------------------------------------------------

void Timeline::write_until_stopped() {
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);  // of this thread alone, on Linux
  // With this priority the thread gets 1 % of a busy core, and must not take it in one piece: a
  // rank that yields while it waits for another rank would get its core back only at the next tick,
  // 4 ms later.
  events_->file().set_gives_way(true);
  while (!stopping_.load()) {
    doorbell_.listen(Doorbell::Listener::kEngineThread);
    if (ring_.empty() && !stopping_.load()) {
      doorbell_.sleep(Doorbell::Listener::kEngineThread, kForLong);
      continue;
    }
    // Records have arrived and more will. From here on only a half-full ring or the end wakes it.
    doorbell_.listen(Doorbell::Listener::kIdleEngineThread);
    if (!stopping_.load()) doorbell_.sleep(Doorbell::Listener::kIdleEngineThread, kGathering);
    doorbell_.stop_listening();
    if (failure_ = drain(/*until_stopped=*/true); failure_.is_ok()) continue;
    HVD_LOG(kWarning, "{}; the file gets no more events", failure_.message());
    enabled_.store(false, std::memory_order_relaxed);
    mark_cycles_.store(false, std::memory_order_relaxed);
    return;
  }
}

Status Timeline::drain(bool until_stopped) noexcept {
  try {
    return drain_or_throw(until_stopped);
  } catch (...) {
    return no_memory_;
  }
}

Status Timeline::drain_or_throw(bool until_stopped) {
  while (!(until_stopped && stopping_.load())) {
    const ConstBytes record = ring_.front();
    if (record.empty()) break;
    HVD_TRY(events_->write(record, memory_, [this](TensorId tensor) { return name_of(tensor); }));
    ring_.pop();
    if (events_->file().unwritten() >= TraceFile::kBlock) HVD_TRY(events_->file().flush());
  }
  HVD_TRY(events_->count_dropped(dropped_.load(std::memory_order_relaxed) - dropped_before_));
  return events_->file().flush();
}

std::string_view Timeline::name_of(TensorId tensor) {
  while (tensor >= known_names_.size()) {
    const Name* next = known_names_.empty()
                           ? first_name_.load(std::memory_order_acquire)
                           : known_names_.back()->next.load(std::memory_order_acquire);
    if (next == nullptr) return "unknown";
    known_names_.push_back(next);
  }
  return known_names_[tensor]->text;
}

}  // namespace hvd
