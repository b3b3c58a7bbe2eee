// SPDX-License-Identifier: Apache-2.0
#include "launcher/link.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "net/socket.h"

namespace hvd::launcher {
namespace {

// Control characters at both ends, so that no start file of a shell prints it by accident.
constexpr std::string_view kPreamble = "\x01horovod agent\x02\n";
constexpr size_t kShellOutputLimit = size_t{64} << 10;
// Bytes per read(); the capacity of a pipe.
constexpr size_t kReadSize = size_t{64} << 10;

// Not a secret: ssh protects the connection, and the tag only detects modified bytes.
Secret zero_key() {
  const std::array<std::byte, Secret::kSize> zeros{};
  return Secret::from_bytes(zeros);
}

void set_nonblocking(const Fd& fd) {
  (void)::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

Link::Link(Side side, Fd in, Fd out)
    : in_(std::move(in)),
      write_(std::move(out)),
      reader_(zero_key()),
      writer_(zero_key()),
      synchronized_(side == Side::kAgent) {
  set_nonblocking(in_);
  set_nonblocking(write_);
  if (side == Side::kAgent) {
    const ConstBytes preamble = bytes_of(kPreamble);
    out_.assign(preamble.begin(), preamble.end());
  }
}

Result<size_t> Link::fill() {
  std::array<std::byte, kReadSize> buffer;
  const ssize_t count = ::read(in_.get(), buffer.data(), buffer.size());
  if (count == 0) return Status(StatusCode::kPeerLost, "the connection has ended");
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return size_t{0};
    return Status(StatusCode::kPeerLost, io_error("read", errno).message());
  }
  const ConstBytes bytes = ConstBytes(buffer).first(static_cast<size_t>(count));
  if (synchronized_) {
    reader_.feed(bytes);
  } else {
    skip_to_preamble(text_of(bytes));
  }
  return bytes.size();
}

// The preamble may arrive in several reads, so the search covers all text so far. What follows it
// in the same read is already the first frame.
void Link::skip_to_preamble(std::string_view text) {
  shell_output_ += text;
  const size_t preamble = shell_output_.find(kPreamble);
  if (preamble != std::string::npos) {
    synchronized_ = true;
    reader_.feed(bytes_of(std::string_view(shell_output_).substr(preamble + kPreamble.size())));
    shell_output_.resize(preamble);
  } else if (shell_output_.size() > kShellOutputLimit) {
    shell_output_.erase(0, shell_output_.size() - kShellOutputLimit);
  }
}

Result<std::optional<Message>> Link::next() {
  HVD_TRY_ASSIGN(const std::optional<ByteBuffer> frame, reader_.next());
  if (!frame.has_value()) return std::optional<Message>();
  HVD_TRY_ASSIGN(Message message, decode(*frame));
  return std::optional<Message>(std::move(message));
}

void Link::send(const Message& message) {
  // Moves the queue to the front only when at least half of the buffer is written: the cost of
  // moving stays proportional to the bytes sent.
  if (out_start_ > 0 && out_start_ >= queued_bytes()) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(out_start_));
    out_start_ = 0;
  }
  // append() fails only if a message exceeds the limit of a frame. None does: the largest contains
  // a command and an environment, and exec accepts at most a quarter of that limit.
  HVD_CHECK(writer_.append(encode(message), out_).is_ok());
}

void Link::flush() {
  while (wants_write()) {
    const ssize_t count = ::write(write_.get(), out_.data() + out_start_, queued_bytes());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;  // the peer is gone: drop the queue, reading reports the loss
    out_start_ += static_cast<size_t>(count);
  }
  out_.clear();
  out_start_ = 0;
}

void Link::flush_all(Deadline deadline) {
  flush();
  while (wants_write() && wait_for(write_.get(), POLLOUT, deadline).is_ok()) flush();
}

}  // namespace hvd::launcher
