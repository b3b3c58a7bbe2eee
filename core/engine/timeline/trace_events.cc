// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/trace_events.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstring>

#include "engine/timeline/names.h"

namespace hvd {
namespace {

constexpr size_t kLongestText = 2000;

// The length of the UTF-8 character that `text` starts with; 0 if it starts with none.
size_t utf8_length(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and values beyond the last character.
  const bool bad = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f) ||
                   (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : length;
}

template <typename T>
void append_number(std::string& text, T value) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

// Takes a T off the front of `bytes`.
template <typename T>
T take(ConstBytes& bytes) {
  HVD_CHECK(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

std::string shape_args(DType dtype, uint32_t dimensions, ConstBytes shape) {
  std::string text = R"(,"args":{"dtype":")";
  text.append(to_string(dtype)).append(R"(","shape":"[)");
  for (uint32_t i = 0; i < dimensions; ++i) {
    if (i > 0) text += ", ";
    append_number(text, take<int64_t>(shape));
  }
  return text += R"(]"})";
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (out.size() > kLongestText) return out += "…";
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (text[0] == '"' || text[0] == '\\') {
      out.append(1, '\\').append(1, text[0]);
    } else if (static_cast<unsigned char>(text[0]) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(text[0]));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

Result<TraceEvents> TraceEvents::create(const std::string& path, int rank) {
  // The two clocks are read together: this is what aligns the files of different ranks.
  const auto epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto start = std::chrono::steady_clock::now().time_since_epoch();
  HVD_TRY_ASSIGN(
      TraceFile file,
      TraceFile::create(
          path,
          fmt::format(R"({{"ph":"M","name":"process_name","pid":0,"args":)"
                      R"({{"start_time_since_epoch_in_micros":{},"name":"rank {}"}}}})",
                      std::chrono::duration_cast<std::chrono::microseconds>(epoch).count(), rank)));
  HVD_TRY(file.add(R"({"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}})"));
  HVD_TRY(file.flush());
  return TraceEvents(std::move(file),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(start).count());
}

Status TraceEvents::write(ConstBytes bytes, TraceMemory& memory, NameOf name_of) {
  using Kind = TraceRecord::Kind;
  const auto record = take<TraceRecord>(bytes);
  if (record.kind == Kind::kShape) {
    const auto tensor = static_cast<size_t>(record.argument);
    if (tensor >= memory.shapes.size()) memory.shapes.resize(tensor + 1);
    memory.shapes[tensor] = shape_args(static_cast<DType>(record.detail), record.count, bytes);
    return Status::ok();
  }
  if (record.kind != Kind::kCycle && !record.same_tensors) {
    HVD_CHECK(bytes.size() == record.count * sizeof(TensorId));
    memory.tensors.resize(record.count);
    std::memcpy(memory.tensors.data(), bytes.data(), bytes.size());
  }
  if (record.time < start_) return Status::ok();
  start_record(record);
  if (record.kind == Kind::kCycle) return add(head_, 0, R"(,"s":"g")");
  for (const TensorId tensor : memory.tensors) {
    HVD_TRY(apply(record.kind, tensor, memory, name_of));
  }
  return Status::ok();
}

void TraceEvents::start_record(const TraceRecord& record) {
  using Kind = TraceRecord::Kind;
  time_ = record.time - start_;
  end_ = head('E', {});
  const auto op = static_cast<TraceOp>(record.detail);
  switch (record.kind) {
    case Kind::kNegotiationStart: head_ = head('B', negotiation_of(op)); break;
    case Kind::kOperationStart: head_ = head('B', hvd::name_of(op)); break;
    case Kind::kActivityStart:
      head_ = head('B', hvd::name_of(static_cast<Activity>(record.detail)));
      break;
    case Kind::kRankReady: head_ = head('X', std::to_string(record.argument)); break;
    case Kind::kCycle: head_ = head('i', "CYCLE_START"); break;
    default: break;
  }
}

Status TraceEvents::apply(TraceRecord::Kind kind, TensorId id, const TraceMemory& memory,
                          NameOf name_of) {
  using Kind = TraceRecord::Kind;
  if (kind == Kind::kNegotiationStart || kind == Kind::kOperationStart) {
    HVD_TRY_ASSIGN(Tensor * tensor, begin(id, name_of));
    tensor->stage = kind == Kind::kNegotiationStart ? Stage::kNegotiating : Stage::kOperating;
    return add(head_, tensor->pid);
  }
  if (id >= tensors_.size()) return ++left_out_, Status::ok();
  Tensor& tensor = tensors_[id];
  switch (kind) {
    case Kind::kRankReady:
      if (tensor.stage != Stage::kNegotiating) break;
      return add(head_, tensor.pid, R"(,"dur":0)");
    case Kind::kNegotiationEnd:
      if (tensor.stage != Stage::kNegotiating) break;
      return leave(tensor, Stage::kIdle);
    case Kind::kActivityStart:
      if (tensor.stage < Stage::kOperating) break;
      HVD_TRY(leave(tensor, Stage::kOperating));
      tensor.stage = Stage::kInActivity;
      return add(head_, tensor.pid);
    case Kind::kActivityEnd:
      if (tensor.stage != Stage::kInActivity) break;
      return leave(tensor, Stage::kOperating);
    case Kind::kOperationEnd:
      if (tensor.stage < Stage::kOperating) break;
      return leave(tensor, Stage::kIdle,
                   id < memory.shapes.size() ? std::string_view(memory.shapes[id]) : "");
    case Kind::kOperationFailed:
      if (tensor.stage < Stage::kOperating) break;
      return leave(tensor, Stage::kIdle);
    default: break;
  }
  ++left_out_;
  return Status::ok();
}

// The tensor, with nothing open; writes its name to the file when it first occurs there.
Result<TraceEvents::Tensor*> TraceEvents::begin(TensorId id, NameOf name_of) {
  if (id >= tensors_.size()) tensors_.resize(id + 1);
  Tensor& tensor = tensors_[id];
  if (tensor.pid == 0) {
    tensor.pid = ++last_pid_;
    HVD_TRY(file_.add(
        fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})",
                    tensor.pid, json_text(name_of(id)))));
    HVD_TRY(file_.add(fmt::format(
        R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
        tensor.pid)));
  }
  HVD_TRY(leave(tensor, Stage::kIdle));
  return &tensor;
}

// Writes end events until the tensor is in `stage`; the outermost one gets `args`.
Status TraceEvents::leave(Tensor& tensor, Stage stage, std::string_view args) {
  while (tensor.stage > stage) {
    tensor.stage = tensor.stage == Stage::kInActivity ? Stage::kOperating : Stage::kIdle;
    HVD_TRY(add(end_, tensor.pid, tensor.stage == stage ? args : std::string_view()));
  }
  return Status::ok();
}

Status TraceEvents::count_dropped(uint64_t dropped) {
  if (dropped + left_out_ == counted_) return Status::ok();
  const uint64_t count = dropped + left_out_ - counted_;
  counted_ += count;
  return add(head('i', "DROPPED_EVENTS"), 0,
             fmt::format(R"(,"s":"g","args":{{"count":{}}})", count));
}

// {"ph":"B","name":"ALLREDUCE","ts":12.345,"pid":
std::string TraceEvents::head(char phase, std::string_view name) const {
  std::string text = R"({"ph":")";
  text.append(1, phase).append(1, '"');
  if (!name.empty()) text.append(R"(,"name":")").append(name).append(1, '"');
  // With nanoseconds: an operation can take 3 us, and whole microseconds would hide its parts.
  return text.append(fmt::format(R"(,"ts":{}.{:03},"pid":)", time_ / 1000, time_ % 1000));
}

Status TraceEvents::add(std::string_view head, uint32_t pid, std::string_view rest) {
  tail_.clear();
  append_number(tail_, pid);
  tail_.append(rest).append(1, '}');
  return file_.add(head, tail_);
}

}  // namespace hvd
