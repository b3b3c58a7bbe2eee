// SPDX-License-Identifier: Apache-2.0
// Non-blocking exchange of messages between launcher and agent over a pair of descriptors.
//
//   agent -> launcher:  [text of shell start files] preamble frame frame ...
//   launcher -> agent:  frame frame ...
//
// The start files of a login shell may print text before the agent starts. Link keeps up to 64 KiB
// of this text, to show it if the agent never starts. It begins to decode after the preamble.
// Frames have an authentication tag as on every connection, but the key is all zeros: ssh
// authenticates the peer, and the tag only detects bytes that a terminal or a shell between the two
// has changed.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "launcher/protocol.h"
#include "net/fd.h"
#include "net/frame.h"

namespace hvd::launcher {

// Used by one thread. Owns both descriptors.
class Link {
 public:
  enum class Side { kLauncher, kAgent };
  // Both descriptors become non-blocking.
  Link(Side side, Fd in, Fd out);

  // Reads once and returns the number of bytes; 0 if nothing has arrived. kPeerLost at the end of
  // the stream.
  Result<size_t> fill();
  // The next complete message among the bytes read, or none. Fails on a malformed or modified
  // frame.
  Result<std::optional<Message>> next();

  // send() queues, flush() writes without blocking. Write errors are not reported: fill() reports
  // the same loss, after the messages that explain it.
  void send(const Message& message);
  void flush();
  // Blocks until everything is written, or until the deadline.
  void flush_all(Deadline deadline);
  bool wants_write() const { return out_start_ < out_.size(); }
  size_t queued_bytes() const { return out_.size() - out_start_; }

  int in() const { return in_.get(); }
  int out() const { return write_.get(); }
  // Text that arrived before the preamble.
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
