// SPDX-License-Identifier: Apache-2.0
// For any bytes in any pieces: the reader returns no message without a right tag, and it returns
// the messages of an honest writer unchanged up to the first byte that the input damages.
#include <algorithm>

#include "net/frame.h"

namespace hvd {
namespace {

constexpr size_t kLimit = 4096;

const Secret& key() {
  static const Secret secret = Secret::from_bytes(ByteBuffer(Secret::kSize, std::byte{7}));
  return secret;
}

// Feeds `stream` in pieces and counts the messages that are returned.
size_t count_messages(ConstBytes stream, size_t piece, ConstBytes expected) {
  FrameReader reader(key(), kLimit);
  size_t messages = 0;
  for (size_t at = 0; at < stream.size(); at += piece) {
    reader.feed(stream.subspan(at, std::min(piece, stream.size() - at)));
    while (true) {
      const auto frame = reader.next();
      if (!frame.is_ok()) return messages;
      if (!frame->has_value()) break;
      HVD_CHECK(text_of(**frame) == text_of(expected));
      ++messages;
    }
  }
  return messages;
}

}  // namespace
}  // namespace hvd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvd;
  if (size < 4) return 0;
  const size_t piece = data[0] + size_t{1};
  const size_t damaged_at = data[1] | data[2] << 8;
  const ConstBytes input = std::as_bytes(std::span(data, size)).subspan(3);

  HVD_CHECK(count_messages(input, piece, {}) == 0);

  if (input.size() > kLimit) return 0;
  ByteBuffer stream;
  FrameWriter writer(key(), kLimit);
  for (int i = 0; i < 3; ++i) HVD_CHECK(writer.append(input, stream).is_ok());
  const size_t frame = stream.size() / 3;
  const bool damaged = damaged_at < stream.size() && data[3] != 0;
  if (damaged) stream[damaged_at] ^= static_cast<std::byte>(data[3]);
  HVD_CHECK(count_messages(stream, piece, input) == (damaged ? damaged_at / frame : 3));
  return 0;
}
