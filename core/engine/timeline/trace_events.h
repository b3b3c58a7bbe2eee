// SPDX-License-Identifier: Apache-2.0
// Turns the records of the engine into the events of one file. Every begin event gets its end
// event, in order, also if records are missing because the ring was full: an event without its
// begin is left out and counted, and what is still open is closed when the tensor starts again.
//
// State of a tensor: kIdle -> kNegotiating -> kOperating -> kInActivity. Each step to the right is
// a begin event, each step to the left an end event.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "engine/timeline/record.h"
#include "engine/timeline/trace_file.h"

namespace hvd {

// `text` as the inside of a JSON string: escaped, cut after some 2,000 bytes, with U+FFFD instead
// of bytes that are not UTF-8.
std::string json_text(std::string_view text);

// What later records refer to. It outlives files, because the engine records these things once.
struct TraceMemory {
  std::vector<TensorId> tensors;    // of the last record that contained tensors
  std::vector<std::string> shapes;  // by TensorId: the arguments of an operation's end, as JSON
};

class TraceEvents {
 public:
  using NameOf = FunctionRef<std::string_view(TensorId)>;

  // Opens `path`. Times in the file are relative to this call.
  static Result<TraceEvents> create(const std::string& path, int rank);

  // A record from before the file was opened updates `memory`, but is not written.
  Status write(ConstBytes record, TraceMemory& memory, NameOf name_of);
  // How many events of this file the engine had to drop so far.
  Status count_dropped(uint64_t dropped);

  TraceFile& file() { return file_; }

 private:
  // In the order of nesting.
  enum class Stage : uint8_t { kIdle, kNegotiating, kOperating, kInActivity };
  struct Tensor {
    uint32_t pid = 0;  // in the file; 0: the tensor does not occur in it yet
    Stage stage = Stage::kIdle;
  };

  TraceEvents(TraceFile file, int64_t start) : file_(std::move(file)), start_(start) {}
  // All events of a record have the same text except for the tensor, so the text is made once.
  void start_record(const TraceRecord& record);
  std::string head(char phase, std::string_view name) const;
  Status add(std::string_view head, uint32_t pid, std::string_view rest = {});

  Status apply(TraceRecord::Kind kind, TensorId id, const TraceMemory& memory, NameOf name_of);
  Result<Tensor*> begin(TensorId id, NameOf name_of);
  Status leave(Tensor& tensor, Stage stage, std::string_view args = {});

  TraceFile file_;
  int64_t start_ = 0;
  int64_t time_ = 0;  // of the present record
  std::string head_;  // text before the pid in its events
  std::string end_;   // the same in end events
  std::string tail_;
  std::vector<Tensor> tensors_;
  uint32_t last_pid_ = 0;
  uint64_t left_out_ = 0;
  uint64_t counted_ = 0;
};

}  // namespace hvd
