// SPDX-License-Identifier: Apache-2.0
// A link: one direction of bytes between two ranks, through a socket or through a ring buffer in
// shared memory. A read or write of a link does not wait. Mesh combines links into a Transport and
// does the waiting; sleep() of a link is the call in which Mesh waits for it.
//
// One caller at a time per link. Sizes are in bytes. A failure is final for the link: the peer is
// lost (kPeerLost, kIo), or its bytes were changed (kUnauthenticated).
#pragma once

#include <chrono>
#include <cstddef>

#include "base/bytes.h"
#include "base/status.h"

namespace hvd {

// How Mesh sleeps when a link cannot continue. Mesh polls all links that have a descriptor in one
// call of poll(2). For a link without a descriptor Mesh calls sleep(), which may return early.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  virtual int descriptor() const { return -1; }
  // The poll(2) events to wait for; only with a descriptor.
  virtual short events() const { return 0; }
  virtual void sleep(std::chrono::microseconds /*at_most*/) {}
};

class OutLink : public Sleeper {
 public:
  // Takes bytes from the front of `out` and returns their number; 0 when there is no room now.
  virtual Result<size_t> write_some(ConstBytes out) = 0;
};

class InLink : public Sleeper {
 public:
  // Fills the front of `in` and returns the number of bytes; 0 when none have arrived.
  virtual Result<size_t> read_some(Bytes in) = 0;

  // The next bytes that have arrived, in the link's own memory: valid until release(n), which drops
  // the first n of them. Only for links with can_peek(); the others return an empty span.
  virtual bool can_peek() const { return false; }
  virtual Result<ConstBytes> peek() { return ConstBytes{}; }
  virtual void release(size_t /*bytes*/) {}
};

}  // namespace hvd
