// SPDX-License-Identifier: Apache-2.0
// For any bytes, cut into any pieces, the messages are those that the lengths define; a length
// above the limit ends the stream.
#include <algorithm>
#include <vector>

#include "transport/control/messages.h"

namespace {

using Messages = std::vector<std::vector<std::byte>>;

constexpr size_t kLimit = 300;

// All messages up to the first failure.
Messages cut(hvd::ConstBytes bytes, size_t piece) {
  hvd::MessageCutter cutter(kLimit);
  Messages messages;
  const auto take = [&](hvd::ConstBytes message) {
    HVD_CHECK(message.size() <= kLimit);
    messages.emplace_back(message.begin(), message.end());
    return hvd::Status::ok();
  };
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (!cutter.feed(bytes.subspan(at, std::min(piece, bytes.size() - at)), take).is_ok()) break;
  }
  return messages;
}

// The same, written in the most obvious way.
Messages expected(hvd::ConstBytes bytes) {
  Messages messages;
  while (bytes.size() >= hvd::kMessageHeader) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes = bytes.subspan(hvd::kMessageHeader);
    if (length > kLimit || length > bytes.size()) break;
    messages.emplace_back(bytes.begin(), bytes.begin() + length);
    bytes = bytes.subspan(length);
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const hvd::ConstBytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  HVD_CHECK(cut(bytes, data[0] + size_t{1}) == expected(bytes));
  return 0;
}
