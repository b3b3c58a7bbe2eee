// SPDX-License-Identifier: Apache-2.0
#include "net/stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hvd {
namespace {

Status lost(int error) {
  // The connection is lost, whatever errno is. The layers above handle only kPeerLost as a loss.
  return {StatusCode::kPeerLost, io_error("connection lost", error).message()};
}

class SocketStream final : public Stream {
 public:
  explicit SocketStream(Fd socket) : socket_(std::move(socket)) {}

  Result<size_t> read_some(Bytes in) override {
    while (true) {
      const ssize_t count = ::recv(socket_.get(), in.data(), in.size(), 0);
      if (count > 0) return static_cast<size_t>(count);
      if (count == 0) return Status(StatusCode::kPeerLost, "the peer closed the connection");
      if (errno == EAGAIN) return size_t{0};
      if (errno != EINTR) return lost(errno);
    }
  }

  Result<size_t> write_some(ConstBytes out) override { return write_gather({&out, 1}); }

  Result<size_t> write_gather(std::span<const ConstBytes> pieces) override {
    std::array<iovec, 16> parts;
    const size_t count = std::min(pieces.size(), parts.size());
    for (size_t i = 0; i < count; ++i) {
      parts[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    while (true) {
      // sendmsg with MSG_NOSIGNAL, not writev: SIGPIPE would end the process, and a library must
      // not change the signal handling of its process.
      const ssize_t written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (written >= 0) return static_cast<size_t>(written);
      if (errno == EAGAIN) return size_t{0};
      if (errno != EINTR) return lost(errno);
    }
  }

  int fd() const override { return socket_.get(); }

 private:
  const Fd socket_;
};

}  // namespace

std::unique_ptr<Stream> make_socket_stream(Fd socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace hvd
