// SPDX-License-Identifier: Apache-2.0
// A non-blocking stream of bytes to one authenticated peer: a bare socket, a socket with tags
// (net/tagged_stream.h), or TLS (net/tls.h).
//
// One caller at a time, for both directions together. A Stream owns its socket. If the peer closed
// the connection or crashed, calls fail with kPeerLost, without the rank, which only the owner of
// the stream knows. After a failure the stream cannot be used any more.
#pragma once

#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "net/address.h"
#include "net/fd.h"
#include "net/poller.h"
#include "net/secret.h"

namespace hvd {

class Stream {
 public:
  virtual ~Stream() = default;

  // Reads at most in.size() bytes, which is not zero; 0 means that none are there yet.
  virtual Result<size_t> read_some(Bytes in) = 0;

  // Writes at most out.size() bytes and returns how many were taken; 0 means that the socket is
  // full. After a write that took fewer bytes than offered, the next write must begin with the
  // bytes that were not taken and offer at least as many: TLS or tags may have processed them
  // already.
  virtual Result<size_t> write_some(ConstBytes out) = 0;
  // The same for pieces at different addresses, with one system call where possible.
  virtual Result<size_t> write_gather(std::span<const ConstBytes> pieces) = 0;

  virtual int fd() const = 0;

  // Whether the stream holds received bytes that a poller does not see. A caller that stops reading
  // before read_some() has returned 0 must ask before it polls.
  virtual bool has_buffered() const { return false; }

  // The events to poll for (kReadable, kWritable) after a read or a write has returned 0.
  virtual uint32_t read_waits_for() const { return kReadable; }
  virtual uint32_t write_waits_for() const { return kWritable; }
};

// The bare socket. The peer is authenticated; the bytes that follow are not. Messages get tags in
// net/frame.h, tensors between hosts in net/tagged_stream.h.
std::unique_ptr<Stream> make_socket_stream(Fd socket);

// Keys for authenticating messages, one per direction and different for each connection.
struct SessionKeys {
  Secret send;
  Secret receive;
};

// A stream whose peer has proved that it has the job secret.
struct AuthenticatedStream {
  std::unique_ptr<Stream> stream;
  SessionKeys keys;
  Endpoint peer;
};

struct StreamOptions {
  bool tls = false;  // HOROVOD_TLS; must be equal on both sides
};

}  // namespace hvd
