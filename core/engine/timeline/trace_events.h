// SPDX-License-Identifier: Apache-2.0
// Turns the records of the engine into the events of one file. Every begin gets its end, in order,
// whatever is missing among the records because the ring was full: what cannot be placed is left
// out and counted, what stays open is closed when the tensor begins anew.
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

// `text` as the inside of a JSON string: escaped, cut after some 2,000 bytes, with U+FFFD in place
// of what is not UTF-8.
std::string json_text(std::string_view text);

// What records refer back to. It outlives files, because the engine says these things once.
struct TraceMemory {
  std::vector<TensorId> tensors;    // of the last record that had some
  std::vector<std::string> shapes;  // by TensorId: what the end of an operation says, as JSON
};

class TraceEvents {
 public:
  using NameOf = FunctionRef<std::string_view(TensorId)>;

  // Opens `path`; time in the file runs from now.
  static Result<TraceEvents> create(const std::string& path, int rank);

  // What was recorded before the file was opened is remembered, but not written.
  Status write(ConstBytes record, TraceMemory& memory, NameOf name_of);
  // How many events of this file the engine had to drop so far.
  Status count_dropped(uint64_t dropped);

  TraceFile& file() { return file_; }

 private:
  // A tensor is in one of these; each begin in the file is a step to a later one.
  enum class Stage : uint8_t { kIdle, kNegotiating, kOperating, kInActivity };
  struct Tensor {
    uint32_t pid = 0;  // none yet
    Stage stage = Stage::kIdle;
  };

  TraceEvents(TraceFile file, int64_t start) : file_(std::move(file)), start_(start) {}
  // Every event of a record has the same text but for the tensor: so it is made once.
  void start_record(const TraceRecord& record);
  std::string head(char phase, std::string_view name) const;
  Status add(std::string_view head, uint32_t pid, std::string_view rest = {});

  Status apply(TraceRecord::Kind kind, TensorId id, const TraceMemory& memory, NameOf name_of);
  Result<Tensor*> begin(TensorId id, NameOf name_of);
  Status leave(Tensor& tensor, Stage stage, std::string_view args = {});

  TraceFile file_;
  int64_t start_ = 0;
  int64_t time_ = 0;  // of the record at hand
  std::string head_;  // of its events
  std::string end_;   // and of those that end something
  std::string tail_;
  std::vector<Tensor> tensors_;
  uint32_t last_pid_ = 0;
  uint64_t left_out_ = 0;
  uint64_t counted_ = 0;
};

}  // namespace hvd
