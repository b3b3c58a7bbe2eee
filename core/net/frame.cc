// SPDX-License-Identifier: Apache-2.0
#include "net/frame.h"

#include <array>

namespace hvd {
namespace {

std::array<std::byte, 8> sequence_bytes(uint64_t sequence) {
  std::array<std::byte, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((sequence >> (8 * i)) & 0xff);
  }
  return bytes;
}

}  // namespace

FrameWriter::FrameWriter(const Secret& key, size_t limit) : hmac_(key), limit_(limit) {}

Status FrameWriter::append(ConstBytes payload, ByteBuffer& out) {
  if (payload.size() > limit_) {
    return invalid_argument("a message of " + std::to_string(payload.size()) +
                            " bytes is longer than the limit of " + std::to_string(limit_));
  }
  const ByteBuffer length = Encoder().put(static_cast<uint32_t>(payload.size())).take();
  const Digest digest = hmac_({sequence_bytes(sequence_++), length, payload});
  out.insert(out.end(), length.begin(), length.end());
  out.insert(out.end(), payload.begin(), payload.end());
  out.insert(out.end(), digest.begin(), digest.begin() + kFrameTagSize);
  return Status::ok();
}

FrameReader::FrameReader(const Secret& key, size_t limit) : hmac_(key), limit_(limit) {}

void FrameReader::feed(ConstBytes bytes) {
  if (!failure_.is_ok()) return;
  // Remove returned bytes only when they are at least half of the buffer: so each byte is moved at
  // most once.
  if (start_ > 0 && start_ >= buffer_.size() - start_) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(start_));
    start_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<ByteBuffer>> FrameReader::next() {
  if (!failure_.is_ok()) return failure_;
  const ConstBytes unread = ConstBytes(buffer_).subspan(start_);
  if (unread.size() < kFrameHeaderSize) return std::optional<ByteBuffer>();
  uint32_t length = 0;
  HVD_TRY(Decoder(unread).get(length));
  if (length > limit_) {
    failure_ = invalid_argument("a frame announces " + std::to_string(length) +
                                " bytes, the limit is " + std::to_string(limit_));
    return failure_;
  }
  if (unread.size() < kFrameHeaderSize + length + kFrameTagSize) return std::optional<ByteBuffer>();
  const ConstBytes payload = unread.subspan(kFrameHeaderSize, length);
  const ConstBytes tag = unread.subspan(kFrameHeaderSize + length, kFrameTagSize);
  const Digest digest =
      hmac_({sequence_bytes(sequence_++), unread.first(kFrameHeaderSize), payload});
  if (!equal_in_constant_time(tag, ConstBytes(digest).first(kFrameTagSize))) {
    failure_ = unauthenticated(
        "a frame has a wrong tag: it was changed on the network, or is not from "
        "the peer that authenticated itself");
    return failure_;
  }
  std::optional<ByteBuffer> frame(std::in_place, payload.begin(), payload.end());
  start_ += kFrameHeaderSize + length + kFrameTagSize;
  if (start_ == buffer_.size()) {
    buffer_.clear();
    start_ = 0;
    // One long message must not keep its memory for the life of the connection.
    if (buffer_.capacity() > size_t{64} << 10) buffer_.shrink_to_fit();
  }
  return frame;
}

}  // namespace hvd
