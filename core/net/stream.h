// SPDX-License-Identifier: Apache-2.0
// A non-blocking stream of bytes to one authenticated peer: a bare socket, or tags or TLS over it.
//
// One caller at a time, for both directions together. A peer that is gone, whether it closed the
// connection or crashed, is a failure with kPeerLost and no rank: the owner knows which rank it
// was. After a failure the stream is of no further use.
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

  // Writes at most out.size() bytes; 0 means that the socket is full. After a write that took less
  // than was offered, the next one has to begin with the bytes that were not taken and to offer at
  // least as many: TLS may hold them encrypted already.
  virtual Result<size_t> write_some(ConstBytes out) = 0;
  // The same for pieces that lie apart, one system call where possible.
  virtual Result<size_t> write_gather(std::span<const ConstBytes> pieces) = 0;

  virtual int fd() const = 0;

  // Whether bytes wait inside the stream that a poller cannot see. Whoever stops reading before
  // read_some() returned 0 has to ask.
  virtual bool has_buffered() const { return false; }

  // What to poll for (kReadable, kWritable) after a read or a write returned 0.
  virtual uint32_t read_waits_for() const { return kReadable; }
  virtual uint32_t write_waits_for() const { return kWritable; }
};

// The bare socket. The peer is authenticated, what it sends later is not: messages get tags by
// net/frame.h, tensors between hosts by net/tagged_stream.h.
std::unique_ptr<Stream> make_socket_stream(Fd socket);

// Keys for authenticating messages, one per direction and different for each connection.
struct SessionKeys {
  Secret send;
  Secret receive;
};

// A stream whose peer has proved that it knows the job secret.
struct AuthenticatedStream {
  std::unique_ptr<Stream> stream;
  SessionKeys keys;
  Endpoint peer;
};

struct StreamOptions {
  bool tls = false;  // HOROVOD_TLS; both sides have to agree
};

}  // namespace hvd
