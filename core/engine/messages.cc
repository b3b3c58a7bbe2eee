// SPDX-License-Identifier: Apache-2.0
#include "engine/messages.h"

#include <fmt/format.h>

namespace hvd {
namespace {

// No plan holds more. A malformed message that claims more must not cost memory.
constexpr uint64_t kMostIds = 1 << 20;

}  // namespace

Result<MessageKind> kind_of(ConstBytes message) {
  if (message.empty()) return invalid_argument("malformed message: empty");
  const auto kind = std::to_integer<uint8_t>(message.front());
  if (kind < 1 || kind > static_cast<uint8_t>(MessageKind::kGoodbye)) {
    return invalid_argument(fmt::format("malformed message: kind {}", kind));
  }
  return static_cast<MessageKind>(kind);
}

void encode_ids(std::span<const ResponseId> ascending, Encoder& out) {
  uint32_t runs = 0;
  for (size_t i = 0; i < ascending.size(); ++i) {
    if (i == 0 || ascending[i] != ascending[i - 1] + 1) ++runs;
  }
  out.put(runs);
  for (size_t begin = 0; begin < ascending.size();) {
    size_t end = begin + 1;
    while (end < ascending.size() && ascending[end] == ascending[end - 1] + 1) ++end;
    out.put(ascending[begin]).put(static_cast<uint32_t>(end - begin));
    begin = end;
  }
}

// Refuses runs that are empty, overlap or are not ascending: receivers rely on each number
// occurring at most once.
Status decode_ids(Decoder& in, std::vector<ResponseId>& ascending) {
  uint32_t runs = 0;
  HVD_TRY(in.get(runs));
  ascending.clear();
  uint64_t least = 0;
  for (uint32_t i = 0; i < runs; ++i) {
    ResponseId first = 0;
    uint32_t count = 0;
    HVD_TRY(in.get(first));
    HVD_TRY(in.get(count));
    const uint64_t end = uint64_t{first} + count;
    if (first < least || count == 0 || end > UINT32_MAX || ascending.size() + count > kMostIds) {
      return invalid_argument("malformed message: numbers of tensors");
    }
    for (uint64_t id = first; id < end; ++id) ascending.push_back(static_cast<ResponseId>(id));
    least = end;
  }
  return Status::ok();
}

void encode(const Status& status, Encoder& out) {
  out.put(static_cast<uint8_t>(status.code()));
  if (!status.is_ok()) out.put(status.message());
}

Status decode(Decoder& in, Status& status) {
  uint8_t code = 0;
  HVD_TRY(in.get(code));
  if (code > static_cast<uint8_t>(kLastStatusCode)) {
    return invalid_argument("malformed message: status");
  }
  status = Status::ok();
  if (code == 0) return Status::ok();
  std::string text;
  HVD_TRY(in.get(text));
  status = Status(static_cast<StatusCode>(code), std::move(text));
  return Status::ok();
}

void encode(const Response& response, Encoder& out) {
  encode(response.request, out);
  out.put(response.first_dimensions);
  encode(response.error, out);
}

Status decode(Decoder& in, Response& response) {
  HVD_TRY(decode(in, response.request));
  HVD_TRY(in.get(response.first_dimensions));
  for (const int64_t rows : response.first_dimensions) {
    if (rows < 0) return invalid_argument("malformed message: negative dimension");
  }
  return decode(in, response.error);
}

ByteBuffer encode(const DecidedPlan& plan) {
  Encoder out;
  out.put(static_cast<uint8_t>(MessageKind::kPlan));
  encode_ids(plan.cached, out);
  out.put(static_cast<uint32_t>(plan.spelled.size()));
  for (const Response& response : plan.spelled) encode(response, out);
  out.put(plan.remember).put(plan.groups).put(plan.last_joined).put(plan.tunables);
  encode(plan.shutdown, out);
  return out.take();
}

Result<DecidedPlan> decode_plan(ConstBytes message) {
  Decoder in(message);
  DecidedPlan plan;
  uint8_t kind = 0;
  HVD_TRY(in.get(kind));
  HVD_TRY(decode_ids(in, plan.cached));
  uint32_t spelled = 0;
  HVD_TRY(in.get(spelled));
  for (uint32_t i = 0; i < spelled; ++i) HVD_TRY(decode(in, plan.spelled.emplace_back()));
  HVD_TRY(in.get(plan.remember));
  HVD_TRY(in.get(plan.groups));
  if (!plan.groups.empty() && plan.groups.size() != plan.cached.size() + plan.spelled.size()) {
    return invalid_argument("malformed message: groups");
  }
  HVD_TRY(in.get(plan.last_joined));
  HVD_TRY(in.get(plan.tunables));
  HVD_TRY(decode(in, plan.shutdown));
  HVD_TRY(in.finish());
  return plan;
}

}  // namespace hvd
