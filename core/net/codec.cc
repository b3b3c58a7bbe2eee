// SPDX-License-Identifier: Apache-2.0
#include "net/codec.h"

#include <limits>

namespace hvd {

void Encoder::put_count(size_t count) {
  HVD_CHECK(count <= std::numeric_limits<uint32_t>::max());
  put(static_cast<uint32_t>(count));
}

Encoder& Encoder::put(ConstBytes bytes) {
  put_count(bytes.size());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return *this;
}

Status Decoder::get(ConstBytes& bytes) {
  uint32_t count = 0;
  HVD_TRY(get(count));
  HVD_TRY(need(count, "a string"));
  bytes = rest_.first(count);
  rest_ = rest_.subspan(count);
  return Status::ok();
}

Status Decoder::get(std::string_view& text) {
  ConstBytes bytes;
  HVD_TRY(get(bytes));
  text = text_of(bytes);
  return Status::ok();
}

Status Decoder::get(std::string& text) {
  std::string_view view;
  HVD_TRY(get(view));
  text = view;
  return Status::ok();
}

Status Decoder::get(ByteBuffer& bytes) {
  ConstBytes view;
  HVD_TRY(get(view));
  bytes.assign(view.begin(), view.end());
  return Status::ok();
}

Status Decoder::need(size_t bytes, std::string_view what) const {
  if (rest_.size() >= bytes) return Status::ok();
  return invalid_argument("malformed record: " + std::string(what) + " needs " +
                          std::to_string(bytes) + " more bytes and there are " +
                          std::to_string(rest_.size()));
}

Status Decoder::finish() const {
  if (rest_.empty()) return Status::ok();
  return invalid_argument("malformed record: " + std::to_string(rest_.size()) +
                          " bytes are left over");
}

}  // namespace hvd
