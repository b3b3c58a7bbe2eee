// SPDX-License-Identifier: Apache-2.0
// Divides a stream of bytes into messages with tags. Without a socket: bytes in, messages out.
//
//   frame:
//   offset     | bytes  | field
//   -----------+--------+----------------------------------------------------------------------
//   0          | 4      | length of the payload, uint32, little-endian
//   4          | length | payload
//   4 + length | 16     | tag: the first 128 bits of HMAC-SHA-256 under the key, of
//              |        | sequence number (uint64, little-endian) · length · payload
//
// The key belongs to one connection and one direction (SessionKeys). Both sides count the sequence
// number from 0; it is not sent. So the reader refuses a frame that was changed, dropped, repeated,
// or moved to another connection or direction.
//
// Not thread-safe; each object is used by one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/secret.h"

namespace hvd {

// Bytes of the longest payload, unless the owner chooses another limit.
inline constexpr size_t kFrameLimit = size_t{16} << 20;
inline constexpr size_t kFrameTagSize = 16;
inline constexpr size_t kFrameHeaderSize = 4;

class FrameWriter {
 public:
  explicit FrameWriter(const Secret& key, size_t limit = kFrameLimit);
  // Appends one frame to `out`. kInvalidArgument if the payload is longer than the limit.
  Status append(ConstBytes payload, ByteBuffer& out);

 private:
  Hmac hmac_;
  const size_t limit_;
  uint64_t sequence_ = 0;
};

// Holds only the bytes that it was fed and has not returned: a peer that announces a long frame
// makes us allocate nothing before the bytes arrive.
class FrameReader {
 public:
  explicit FrameReader(const Secret& key, size_t limit = kFrameLimit);
  void feed(ConstBytes bytes);
  // The next whole message, or none until more bytes are fed. Fails on a frame above the limit
  // (kInvalidArgument) and on a wrong tag (kUnauthenticated). Both failures are permanent, because
  // the position of the next frame and the sequence number are no longer certain.
  Result<std::optional<ByteBuffer>> next();

 private:
  Hmac hmac_;
  const size_t limit_;
  uint64_t sequence_ = 0;
  ByteBuffer buffer_;
  size_t start_ = 0;  // bytes of buffer_ that were returned already
  Status failure_;
};

}  // namespace hvd
