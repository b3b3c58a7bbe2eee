// SPDX-License-Identifier: Apache-2.0
// Messages as bytes in a ring between two ranks of one host: a length of 4 bytes, in the byte order
// that both ends share, then the message. Pure: no ring, no waiting.
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

// Cuts bytes into messages. Holds at most what it was fed: a length alone gets no memory.
class MessageCutter {
 public:
  explicit MessageCutter(size_t limit = kMessageLimit) : limit_(limit) {}

  // Hands over each message that `bytes` complete, and returns how many; keeps what is left. A
  // message that lies whole in `bytes` is not copied. A failure, of `take` or because of a length
  // above the limit, is final.
  using Take = FunctionRef<Status(ConstBytes message)>;
  Result<int> feed(ConstBytes bytes, Take take);

 private:
  // How long the message is that `start` begins, with its header: 0 when that is not known yet.
  Result<size_t> whole_size(ConstBytes start) const;

  const size_t limit_;
  ByteBuffer held_;  // the start of a message
};

}  // namespace hvd
