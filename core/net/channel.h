// SPDX-License-Identifier: Apache-2.0
// Messages to and from one authenticated peer: frames with tags (net/frame.h) over a Stream.
// Control traffic uses channels; tensors do not.
//
// One caller at a time. send() and recv() block. The other calls never block, so that one thread
// with a poller can drive many channels.
//
// A Channel owns its connection. Two failures are permanent, and every further call returns them
// again: a lost connection (kPeerLost, without the rank, which only the owner knows), and a
// received frame that is damaged or too long. kTimeout leaves the channel usable: the rest of the
// message stays queued.
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
  // `frame_limit`: bytes of the longest message, in both directions.
  explicit Channel(AuthenticatedStream peer, size_t frame_limit = kFrameLimit);

  // Returns when the kernel has taken the whole message. Does not read meanwhile: two peers that
  // both send more than the socket buffers hold block each other until the deadline.
  Status send(ConstBytes message, Deadline deadline);
  Result<ByteBuffer> recv(Deadline deadline);

  // The next message, or none if it has not arrived: wait for wanted_events() then.
  Result<std::optional<ByteBuffer>> try_recv();
  // Adds a message to the output buffer, which flush_some() writes.
  Status queue_send(ConstBytes message);
  // Writes as much of the output buffer as the socket takes.
  Status flush_some();
  size_t queued_bytes() const { return out_.size() - out_start_; }
  // The events to poll for: readable always, writable while output is queued.
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
  size_t out_start_ = 0;  // bytes of out_ that are written
  Status failure_;        // the first one; permanent
};

}  // namespace hvd
