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
  // Longer than need be, halves of a pair, beyond the last character.
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

Status TraceEvents::write(ConstBytes bytes, std::vector<TensorId>& tensors, NameOf name_of) {
  const auto record = take<TraceRecord>(bytes);
  const bool has_tensors =
      record.kind != TraceRecord::Kind::kOperationEnd && record.kind != TraceRecord::Kind::kCycle;
  if (has_tensors && !record.same_tensors) {
    HVD_CHECK(bytes.size() == record.count * sizeof(TensorId));
    tensors.resize(record.count);
    std::memcpy(tensors.data(), bytes.data(), bytes.size());
  }
  if (record.time < start_) return Status::ok();
  time_ = record.time - start_;
  if (record.kind == TraceRecord::Kind::kOperationEnd) return finish(record, bytes);
  if (record.kind == TraceRecord::Kind::kCycle) {
    start_event('i', "CYCLE_START");
    return end_event(0, R"(,"s":"g")");
  }
  for (const TensorId tensor : tensors) HVD_TRY(apply(record, tensor, name_of));
  return Status::ok();
}

Status TraceEvents::apply(const TraceRecord& record, TensorId id, NameOf name_of) {
  using Kind = TraceRecord::Kind;
  if (record.kind == Kind::kNegotiationStart || record.kind == Kind::kOperationStart) {
    const auto op = static_cast<TraceOp>(record.detail);
    const bool negotiation = record.kind == Kind::kNegotiationStart;
    HVD_TRY_ASSIGN(Tensor * tensor, begin(id, name_of));
    tensor->stage = negotiation ? Stage::kNegotiating : Stage::kOperating;
    start_event('B', negotiation ? negotiation_of(op) : hvd::name_of(op));
    return end_event(tensor->pid);
  }
  if (id >= tensors_.size()) return ++left_out_, Status::ok();
  Tensor& tensor = tensors_[id];
  switch (record.kind) {
    case Kind::kRankReady: {
      if (tensor.stage != Stage::kNegotiating) break;
      char digits[12];
      const char* end = std::to_chars(digits, digits + sizeof(digits), record.argument).ptr;
      start_event('X', {digits, static_cast<size_t>(end - digits)});
      return end_event(tensor.pid, R"(,"dur":0)");
    }
    case Kind::kNegotiationEnd:
      if (tensor.stage != Stage::kNegotiating) break;
      return leave(tensor, Stage::kIdle, {});
    case Kind::kActivityStart:
      if (tensor.stage < Stage::kOperating) break;
      HVD_TRY(leave(tensor, Stage::kOperating, {}));
      tensor.stage = Stage::kInActivity;
      start_event('B', hvd::name_of(static_cast<Activity>(record.detail)));
      return end_event(tensor.pid);
    case Kind::kActivityEnd:
      if (tensor.stage != Stage::kInActivity) break;
      return leave(tensor, Stage::kOperating, {});
    case Kind::kOperationFailed:
      if (tensor.stage < Stage::kOperating) break;
      return leave(tensor, Stage::kIdle, {});
    default: break;
  }
  ++left_out_;
  return Status::ok();
}

Status TraceEvents::finish(const TraceRecord& record, ConstBytes finished) {
  for (uint32_t i = 0; i < record.count; ++i) {
    const auto tensor = take<FinishedRecord>(finished);
    args_ = R"(,"args":{"dtype":")";
    args_.append(to_string(tensor.dtype)).append(R"(","shape":"[)");
    for (int d = 0; d < tensor.dimensions; ++d) {
      if (d > 0) args_ += ", ";
      append_number(args_, take<int64_t>(finished));
    }
    args_ += R"(]"})";
    if (tensor.tensor >= tensors_.size() || tensors_[tensor.tensor].stage < Stage::kOperating) {
      ++left_out_;
    } else {
      HVD_TRY(leave(tensors_[tensor.tensor], Stage::kIdle, args_));
    }
  }
  return Status::ok();
}

// The tensor, introduced to the readers of this file and with nothing open.
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
  HVD_TRY(leave(tensor, Stage::kIdle, {}));
  return &tensor;
}

// Ends what is open until the tensor is in `stage`; the outermost end gets `args`.
Status TraceEvents::leave(Tensor& tensor, Stage stage, std::string_view args) {
  while (tensor.stage > stage) {
    tensor.stage = tensor.stage == Stage::kInActivity ? Stage::kOperating : Stage::kIdle;
    start_event('E', {});
    HVD_TRY(end_event(tensor.pid, tensor.stage == stage ? args : std::string_view()));
  }
  return Status::ok();
}

Status TraceEvents::count_dropped(uint64_t dropped) {
  if (dropped + left_out_ == counted_) return Status::ok();
  start_event('i', "DROPPED_EVENTS");
  const uint64_t count = dropped + left_out_ - counted_;
  counted_ += count;
  return end_event(0, fmt::format(R"(,"s":"g","args":{{"count":{}}})", count));
}

// {"ph":"B","name":"ALLREDUCE","ts":12.345
void TraceEvents::start_event(char phase, std::string_view name) {
  event_ = R"({"ph":")";
  event_.append(1, phase).append(1, '"');
  if (!name.empty()) event_.append(R"(,"name":")").append(name).append(1, '"');
  event_ += R"(,"ts":)";
  append_number(event_, time_ / 1000);
  // An operation can take 3 us: whole ones would not tell its parts apart.
  const int64_t rest = time_ % 1000;
  const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                         static_cast<char>('0' + rest / 10 % 10),
                         static_cast<char>('0' + rest % 10)};
  event_.append(digits, sizeof(digits));
}

Status TraceEvents::end_event(uint32_t pid, std::string_view rest) {
  event_ += R"(,"pid":)";
  append_number(event_, pid);
  event_.append(rest).append(1, '}');
  return file_.add(event_);
}

}  // namespace hvd
