// SPDX-License-Identifier: Apache-2.0
#include "net/channel.h"

#include <poll.h>

#include <array>

#include "net/socket.h"

namespace hvd {

Channel::Channel(AuthenticatedStream peer, size_t frame_limit)
    : peer_(peer.peer),
      stream_(std::move(peer.stream)),
      writer_(peer.keys.send, frame_limit),
      reader_(peer.keys.receive, frame_limit) {}

Status Channel::send(ConstBytes message, Deadline deadline) {
  HVD_TRY(queue_send(message));
  while (true) {
    HVD_TRY(flush_some());
    if (!wants_write()) return Status::ok();
    HVD_TRY(wait_ready(stream_->write_waits_for(), deadline));
  }
}

Result<ByteBuffer> Channel::recv(Deadline deadline) {
  while (true) {
    HVD_TRY_ASSIGN(std::optional<ByteBuffer> message, try_recv());
    if (message.has_value()) return std::move(*message);
    // An earlier send() whose deadline passed may have left output: write it while we wait.
    HVD_TRY(flush_some());
    HVD_TRY(wait_ready(wanted_events(), deadline));
  }
}

Result<std::optional<ByteBuffer>> Channel::try_recv() {
  if (!failure_.is_ok()) return failure_;
  std::array<std::byte, 16384> buffer;
  while (true) {
    auto message = reader_.next();
    if (!message.is_ok()) return failure_ = message.status();
    if (message->has_value()) return message;
    const Result<size_t> count = stream_->read_some(buffer);
    if (!count.is_ok()) return failure_ = count.status();
    if (*count == 0) return std::optional<ByteBuffer>();
    reader_.feed(ConstBytes(buffer).first(*count));
  }
}

Status Channel::queue_send(ConstBytes message) {
  if (!failure_.is_ok()) return failure_;
  return writer_.append(message, out_);
}

Status Channel::flush_some() {
  if (!failure_.is_ok()) return failure_;
  while (wants_write()) {
    const Result<size_t> count = stream_->write_some(ConstBytes(out_).subspan(out_start_));
    if (!count.is_ok()) return failure_ = count.status();
    if (*count == 0) return Status::ok();
    out_start_ += *count;
  }
  out_.clear();
  out_start_ = 0;
  // As in FrameReader: one long message must not keep its memory for the life of the connection.
  if (out_.capacity() > size_t{64} << 10) out_.shrink_to_fit();
  return Status::ok();
}

uint32_t Channel::wanted_events() const {
  return stream_->read_waits_for() | (wants_write() ? stream_->write_waits_for() : 0);
}

Status Channel::wait_ready(uint32_t events, Deadline deadline) {
  const int wanted =
      ((events & kReadable) != 0 ? POLLIN : 0) | ((events & kWritable) != 0 ? POLLOUT : 0);
  return wait_for(fd(), static_cast<short>(wanted), deadline);
}

}  // namespace hvd
