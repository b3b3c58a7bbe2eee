// SPDX-License-Identifier: Apache-2.0
#include "transport/control/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvd {
namespace {

// A buffer larger than this is freed after its message, so that one long message does not occupy
// memory permanently.
constexpr size_t kMostKept = 64 << 10;

}  // namespace

Status check_message_size(size_t bytes, size_t limit) {
  if (bytes <= limit) return Status::ok();
  return invalid_argument(
      fmt::format("a control message of {} bytes is longer than the limit of {}", bytes, limit));
}

Result<size_t> MessageCutter::whole_size(ConstBytes start) const {
  if (start.size() < kMessageHeader) return size_t{0};
  uint32_t length = 0;
  std::memcpy(&length, start.data(), kMessageHeader);
  HVD_TRY(check_message_size(length, limit_));
  return kMessageHeader + length;
}

Result<int> MessageCutter::feed(ConstBytes bytes, Take take) {
  int count = 0;
  while (!bytes.empty()) {
    const bool in_place = held_.empty();
    if (!in_place) {
      // First the rest of the header, then the rest of the message, and no byte of the next one.
      HVD_TRY_ASSIGN(const size_t known, whole_size(held_));
      const size_t wanted = (known == 0 ? kMessageHeader : known) - held_.size();
      const ConstBytes step = bytes.first(std::min(wanted, bytes.size()));
      held_.insert(held_.end(), step.begin(), step.end());
      bytes = bytes.subspan(step.size());
    }
    const ConstBytes start = in_place ? bytes : ConstBytes(held_);
    HVD_TRY_ASSIGN(const size_t whole, whole_size(start));
    if (whole == 0 || start.size() < whole) {
      if (!in_place) continue;
      held_.assign(bytes.begin(), bytes.end());
      break;
    }
    HVD_TRY(take(start.first(whole).subspan(kMessageHeader)));
    ++count;
    if (in_place) {
      bytes = bytes.subspan(whole);
    } else {
      held_.clear();
      if (held_.capacity() > kMostKept) held_.shrink_to_fit();
    }
  }
  return count;
}

}  // namespace hvd
