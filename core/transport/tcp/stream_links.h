// SPDX-License-Identifier: Apache-2.0
// Links over net/stream.h. Each link owns a connection and uses it in one direction. Threads and
// failures: see link.h.
#pragma once

#include <fmt/format.h>
#include <poll.h>

#include <memory>
#include <string>
#include <utility>

#include "net/stream.h"
#include "net/tagged_stream.h"
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

// Replaces the message of a link about bytes that its peer has not sent. `way` names the hosts at
// both ends: "host a and host b".
template <typename T>
Result<T> name_tampering(Result<T> result, const std::string& way) {
  if (result.status().code() != StatusCode::kUnauthenticated) return result;
  return unauthenticated(fmt::format(
      "what it sent was changed on the wire ({}); the network between {} is being tampered with or "
      "is faulty",
      result.status().message(), way));
}

class StreamIn final : public InLink {
 public:
  StreamIn(std::unique_ptr<Stream> stream, std::string way)
      : stream_(std::move(stream)), way_(std::move(way)) {}
  Result<size_t> read_some(Bytes in) override {
    return name_tampering(stream_->read_some(in), way_);
  }
  int descriptor() const override { return stream_->fd(); }
  short events() const override { return poll_events(stream_->read_waits_for()); }

 private:
  const std::unique_ptr<Stream> stream_;
  const std::string way_;
};

// The same with tags. Verified bytes are in the memory of the stream, so a reduction can read them
// there.
class TaggedIn final : public InLink {
 public:
  TaggedIn(std::unique_ptr<TaggedStream> stream, std::string way)
      : stream_(std::move(stream)), way_(std::move(way)) {}
  Result<size_t> read_some(Bytes in) override {
    return name_tampering(stream_->read_some(in), way_);
  }
  bool can_peek() const override { return true; }
  Result<ConstBytes> peek() override { return name_tampering(stream_->peek(), way_); }
  void release(size_t bytes) override { stream_->release(bytes); }
  int descriptor() const override { return stream_->fd(); }
  short events() const override { return poll_events(stream_->read_waits_for()); }

 private:
  const std::unique_ptr<TaggedStream> stream_;
  const std::string way_;
};

}  // namespace hvd
