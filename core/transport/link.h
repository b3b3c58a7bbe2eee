// SPDX-License-Identifier: Apache-2.0
// One direction of bytes between two ranks, without waiting: a socket, or a ring in shared memory.
// Mesh joins links into a Transport and does all the waiting; a link only says what is possible
// now, and how to sleep until that changes.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/bytes.h"
#include "base/status.h"

namespace hvd {

// How Mesh sleeps when a link cannot go on. A link with a descriptor is polled together with
// others; one without sleeps by itself in `sleep`, where an early return does no harm.
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
  // Takes bytes from the front of `out` and returns how many; 0 when there is no room now.
  virtual Result<size_t> write_some(ConstBytes out) = 0;
};

class InLink : public Sleeper {
 public:
  // Fills the front of `in` and returns how many bytes; 0 when none has arrived.
  virtual Result<size_t> read_some(Bytes in) = 0;

  // The next bytes that have arrived, where they lie, if this link can show them: valid until
  // release(n), which drops the first n of them. A link that cannot returns an empty span.
  virtual bool can_peek() const { return false; }
  virtual Result<ConstBytes> peek() { return ConstBytes{}; }
  virtual void release(size_t /*bytes*/) {}
};

}  // namespace hvd
