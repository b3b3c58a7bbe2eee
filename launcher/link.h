// SPDX-License-Identifier: Apache-2.0
// Messages between launcher and agent over a pair of descriptors, without blocking.
//
// An agent begins with a preamble. What comes before it was written by a shell's start files on the
// way and is not ours: it is kept, up to a limit, to be shown when the agent never comes up. Frames
// carry tags as everywhere, here under a key that everyone knows: ssh vouches for the peer, and the
// tag tells of bytes that something on the way has changed.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "launcher/protocol.h"
#include "net/fd.h"
#include "net/frame.h"

namespace hvd::launcher {

class Link {
 public:
  enum class Side { kLauncher, kAgent };
  // Both descriptors become non-blocking.
  Link(Side side, Fd in, Fd out);

  // Takes what has arrived; 0 bytes: nothing has. kPeerLost at the end of the stream.
  Result<size_t> fill();
  // The next message of what was taken.
  Result<std::optional<Message>> next();

  // Queues; flush() writes what the other side takes. A failure to write is not told: the same
  // failure ends the reading, with the messages that explain it before.
  void send(const Message& message);
  void flush();
  // Waits until all is written.
  void flush_all(Deadline deadline);
  bool wants_write() const { return out_start_ < out_.size(); }
  size_t queued_bytes() const { return out_.size() - out_start_; }

  int in() const { return in_.get(); }
  int out() const { return write_.get(); }
  // What somebody else has written before the agent came up.
  const std::string& shell_output() const { return shell_output_; }

 private:
  void skip_to_preamble(std::string_view text);

  Fd in_;
  Fd write_;
  FrameReader reader_;
  FrameWriter writer_;
  bool synchronized_;
  std::string shell_output_;
  ByteBuffer out_;
  size_t out_start_ = 0;
};

}  // namespace hvd::launcher
