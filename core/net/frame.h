// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of bytes into messages. Pure: bytes in, messages out, no socket.
//
//   frame = length (4 bytes, little-endian) · payload · tag (16 bytes)
//
// The tag is HMAC-SHA-256 of sequence number, length and payload, cut to 128 bits; the sequence
// number is counted on both sides and not sent. So a frame that was changed, dropped, repeated or
// moved to another connection or direction is refused.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/secret.h"

namespace hvd {

inline constexpr size_t kFrameLimit = size_t{16} << 20;
inline constexpr size_t kFrameTagSize = 16;
inline constexpr size_t kFrameHeaderSize = 4;

class FrameWriter {
 public:
  explicit FrameWriter(const Secret& key, size_t limit = kFrameLimit);
  // Appends one frame to `out`; fails when the payload is longer than the limit.
  Status append(ConstBytes payload, ByteBuffer& out);

 private:
  Hmac hmac_;
  const size_t limit_;
  uint64_t sequence_ = 0;
};

// Holds at most what it was fed and has not given back: a peer that announces a long frame gets
// no memory for it before the bytes are there.
class FrameReader {
 public:
  explicit FrameReader(const Secret& key, size_t limit = kFrameLimit);
  void feed(ConstBytes bytes);
  // The next whole message, or nothing until more is fed. Fails on a frame above the limit
  // (kInvalidArgument) and on a wrong tag (kUnauthenticated), and then for good.
  Result<std::optional<ByteBuffer>> next();

 private:
  Hmac hmac_;
  const size_t limit_;
  uint64_t sequence_ = 0;
  ByteBuffer buffer_;
  size_t start_ = 0;  // bytes of buffer_ that were given back already
  Status failure_;
};

}  // namespace hvd
