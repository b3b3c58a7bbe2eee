// SPDX-License-Identifier: Apache-2.0
// Messages with one authenticated peer: frames with tags over a Stream. This is how control
// traffic travels; tensors do not.
//
// One caller at a time. send() and recv() block; the other calls never do, and let a thread with a
// poller drive many channels.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/status.h"
#include "net/codec.h"
#include "net/frame.h"
#include "net/stream.h"

namespace hvd {

class Channel {
 public:
  explicit Channel(AuthenticatedStream peer, size_t frame_limit = kFrameLimit);

  // Returns once all of it is in the kernel's hands. Does not read meanwhile: two peers that both
  // send more than the socket buffers hold stop each other until the deadline.
  Status send(ConstBytes message, Deadline deadline);
  Result<ByteBuffer> recv(Deadline deadline);

  // The next message if it is there. When there is none, the poller will tell.
  Result<std::optional<ByteBuffer>> try_recv();
  // Adds a message to what flush_some() writes.
  Status queue_send(ConstBytes message);
  // Writes what the socket takes.
  Status flush_some();
  size_t queued_bytes() const { return out_.size() - out_start_; }
  // What to ask the poller for: readable always, writable while something is queued.
  uint32_t wanted_events() const;
  bool wants_write() const { return queued_bytes() > 0; }

  int fd() const { return stream_->fd(); }
  const Endpoint& peer() const { return peer_; }

 private:
  Status wait_ready(uint32_t events, Deadline deadline);

  const Endpoint peer_;
  std::unique_ptr<Stream> stream_;
  FrameWriter writer_;
  FrameReader reader_;
  ByteBuffer out_;
  size_t out_start_ = 0;
  Status failure_;
};

}  // namespace hvd
