// SPDX-License-Identifier: Apache-2.0
// Messages as bytes in a ring between two ranks of one host:
//
//   | length of the message: 4 bytes, in the byte order of the machine | message |
//
// Pure functions of bytes: no ring, no waiting.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/frame.h"

namespace hvd {

inline constexpr size_t kMessageLimit = kFrameLimit;  // the same on rings and on sockets
inline constexpr size_t kMessageHeader = sizeof(uint32_t);

// Writes the length of a message to the front of `out`.
inline void put_length(size_t length, Bytes out) {
  const auto header = static_cast<uint32_t>(length);
  std::memcpy(out.data(), &header, kMessageHeader);
}

Status check_message_size(size_t bytes, size_t limit = kMessageLimit);

// Cuts a stream of bytes into messages. It holds at most the bytes that it was fed: a length alone
// allocates nothing. One caller at a time.
class MessageCutter {
 public:
  explicit MessageCutter(size_t limit = kMessageLimit) : limit_(limit) {}

  // Passes each message that `bytes` complete to `take`, and returns their number; keeps the rest.
  // A message that lies completely in `bytes` is not copied. A failure, of `take` or because of a
  // length above the limit, is final.
  using Take = FunctionRef<Status(ConstBytes message)>;
  Result<int> feed(ConstBytes bytes, Take take);

 private:
  // Bytes of the message at `start`, including its header; 0 if the header is not complete.
  Result<size_t> whole_size(ConstBytes start) const;

  const size_t limit_;
  ByteBuffer held_;  // the start of a message
};

}  // namespace hvd
