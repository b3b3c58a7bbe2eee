// SPDX-License-Identifier: Apache-2.0
// The timeline: what happened to each tensor and when, as a Chrome trace that chrome://tracing and
// Perfetto show (docs/timeline.md).
//
// The engine records numbers into a ring, for all tensors of a batch at once: one read of the clock
// and one copy, some 60 ns, and no system call unless the writer sleeps because there were no
// events. The thread `hvd-timeline` turns records into text. It lets events gather for 20 ms before
// it writes, so the events of the last moments before a kill are missing from the file; the file is
// valid all the same (trace_file.h). The writer has the lowest priority, which is 1 % of a core
// when all cores are busy. Records that it has not written stay in the ring, where a step of 1,000
// tensors takes 4 KiB. Records that do not fit are dropped and counted in the file, because neither
// a slow disk nor a busy machine may slow down training for a timeline.
//
// All functions may be called from any thread: the engines of several process sets record into one
// timeline. The lock recording_ orders their records, so that the ring has one producer at a time
// and times in a file do not decrease. It is held for a copy into memory; the writer never takes
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fork_generation.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/timeline/names.h"
#include "engine/timeline/record.h"
#include "engine/timeline/record_ring.h"
#include "engine/timeline/trace_events.h"
#include "transport/control/doorbell.h"

namespace hvd {

class Timeline {
 public:
  // One tensor or many.
  class Tensors : public std::span<const TensorId> {
   public:
    Tensors(const TensorId& tensor)  // NOLINT(google-explicit-constructor)
        : std::span<const TensorId>(&tensor, 1) {}
    Tensors(const std::vector<TensorId>& tensors)  // NOLINT(google-explicit-constructor)
        : std::span<const TensorId>(tensors) {}
    explicit Tensors(std::span<const TensorId> tensors) : std::span<const TensorId>(tensors) {}
  };
  static constexpr size_t kRingBytes = size_t{4} << 20;

  // "timeline.3.json" for rank 3 and "timeline.json": with HOROVOD_TIMELINE_ALL_RANKS every rank
  // has a file of its own.
  static std::string path_for_rank(const std::string& path, int rank);

  explicit Timeline(int rank, size_t ring_bytes = kRingBytes) : rank_(rank), ring_(ring_bytes) {}
  ~Timeline();

  // Writes to `path` from now on. The present path changes nothing; another one ends the present
  // file first, unless the new file cannot be opened.
  Status start(const std::string& path, bool mark_cycles) HVD_EXCLUDES(control_);
  // Returns when the file is complete; ok when there is none. Fails if events could not be written.
  Status stop() HVD_EXCLUDES(control_);
  // Whether a file is open; otherwise the functions that record return at once.
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }

  // The number of a name; it never changes. A name takes some 100 bytes permanently: ask only while
  // enabled(), because scripts may use a new name for each call.
  TensorId tensor(std::string_view name) HVD_EXCLUDES(recording_);

  // The shape that operation_end() writes for this tensor from now on. False when the ring had no
  // room: call again before the next operation ends.
  bool shape(TensorId tensor, DType dtype, std::span<const int64_t> shape) HVD_EXCLUDES(recording_);

  void negotiation_start(Tensors tensors, TraceOp op) {
    record(Kind::kNegotiationStart, static_cast<uint8_t>(op), 0, tensors);
  }
  void rank_ready(Tensors tensors, int job_rank) { record(Kind::kRankReady, 0, job_rank, tensors); }
  void negotiation_end(Tensors tensors) { record(Kind::kNegotiationEnd, 0, 0, tensors); }
  void operation_start(Tensors tensors, TraceOp op) {
    record(Kind::kOperationStart, static_cast<uint8_t>(op), 0, tensors);
  }
  // Also ends the activity before it.
  void activity_start(Tensors tensors, Activity activity) {
    record(Kind::kActivityStart, static_cast<uint8_t>(activity), 0, tensors);
  }
  void activity_end(Tensors tensors) { record(Kind::kActivityEnd, 0, 0, tensors); }
  // Writes the last shape() of each tensor.
  void operation_end(Tensors tensors) { record(Kind::kOperationEnd, 0, 0, tensors); }
  void operation_failed(Tensors tensors) { record(Kind::kOperationFailed, 0, 0, tensors); }
  // Does nothing unless start() had mark_cycles.
  void mark_cycle() {
    if (mark_cycles_.load(std::memory_order_acquire)) record_some({.kind = Kind::kCycle}, {});
  }

 private:
  using Kind = TraceRecord::Kind;
  struct Name {
    explicit Name(std::string_view name) : text(name) {}
    const std::string text;
    std::atomic<const Name*> next{nullptr};
  };

  void record(Kind kind, uint8_t detail, int32_t argument, Tensors tensors) {
    if (enabled() && !tensors.empty())
      record_some({.kind = kind, .detail = detail, .argument = argument}, tensors);
  }
  void record_some(TraceRecord record, std::span<const TensorId> tensors) HVD_EXCLUDES(recording_);
  // Puts `record` into the ring and returns room for the `bytes` after it. Null when the ring is
  // full; then the record counts as dropped.
  std::byte* reserve(const TraceRecord& record, size_t bytes) HVD_REQUIRES(recording_);
  void commit() HVD_REQUIRES(recording_);

  Status stop_locked() HVD_REQUIRES(control_);
  void write_until_stopped();
  // Writes all records in the ring; with `until_stopped`, returns early when stopping_ is set.
  Status drain(bool until_stopped) noexcept;
  Status drain_or_throw(bool until_stopped);
  std::string_view name_of(TensorId tensor);

  const int rank_;
  const ForkGeneration mark_;
  RecordRing ring_;  // produced into with recording_ held, consumed by the writer
  Doorbell doorbell_;
  std::atomic<bool> enabled_{false};
  std::atomic<bool> mark_cycles_{false};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<bool> stopping_{false};

  Mutex recording_;
  // Names never move: the writer follows their chain without a lock while more are added.
  std::deque<Name> names_ HVD_GUARDED_BY(recording_);
  std::unordered_map<std::string_view, TensorId> ids_ HVD_GUARDED_BY(recording_);
  std::atomic<const Name*> first_name_{nullptr};
  // The tensors of the last record in the ring that has tensors.
  std::vector<TensorId> recorded_ HVD_GUARDED_BY(recording_);

  Mutex control_;
  bool populated_ HVD_GUARDED_BY(control_) = false;
  std::string path_ HVD_GUARDED_BY(control_);
  std::thread writer_ HVD_GUARDED_BY(control_);

  // These belong to the writer or, while there is no writer, to the thread that holds control_.
  std::optional<TraceEvents> events_;
  const Status no_memory_ = unavailable("timeline: no memory is left");
  Status failure_;
  uint64_t dropped_before_ = 0;  // in earlier files
  std::vector<const Name*> known_names_;
  TraceMemory memory_;
};

}  // namespace hvd
