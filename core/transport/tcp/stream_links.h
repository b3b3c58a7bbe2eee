// The two directions of a mesh over net/stream.h: each link has a connection of its own and uses it
// in one direction.
#pragma once

#include <poll.h>

#include <memory>
#include <utility>

#include "net/stream.h"
#include "transport/link.h"

namespace hvd {

inline short poll_events(uint32_t wanted) {
  return static_cast<short>(((wanted & kReadable) != 0 ? POLLIN : 0) |
                            ((wanted & kWritable) != 0 ? POLLOUT : 0));
}

class StreamOut final : public OutLink {
 public:
  explicit StreamOut(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  Result<size_t> write_some(ConstBytes out) override { return stream_->write_some(out); }
  int descriptor() const override { return stream_->fd(); }
  short events() const override { return poll_events(stream_->write_waits_for()); }

 private:
  const std::unique_ptr<Stream> stream_;
};

class StreamIn final : public InLink {
 public:
  explicit StreamIn(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  Result<size_t> read_some(Bytes in) override { return stream_->read_some(in); }
  int descriptor() const override { return stream_->fd(); }
  short events() const override { return poll_events(stream_->read_waits_for()); }

 private:
  const std::unique_ptr<Stream> stream_;
};

}  // namespace hvd
