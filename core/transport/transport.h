// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the ranks of one communicator. Code above knows no sockets; code below
// knows no tensors.
//
// One caller at a time. Between two ranks bytes stay in order and carry no boundaries: what is
// sent as 3 + 5 bytes may be received as 8. Any failure (kPeerLost, kTimeout, kAborted) ends the
// communicator for good on every rank, so that nobody waits for a peer that has given up.
#pragma once

#include <cstddef>
#include <utility>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "transport/topology.h"

namespace hvd {

class Arena;

class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return topology_.size(); }
  const Topology& topology() const { return topology_; }

  // Starts sending all of `out` to rank `to` and returns without waiting for the receiver: a ring
  // in which every rank first waits for its send would stop for good once a chunk outgrows the
  // socket buffers. `out` has to stay unchanged until flush() returns, or until a message has
  // arrived that the receiver could only have sent after it had all of `out`. `to` is not rank().
  virtual Status send(int to, ConstBytes out, Deadline deadline) = 0;

  // Fills all of `in` with the next bytes from rank `from`; sends go on meanwhile.
  virtual Status recv(int from, Bytes in, Deadline deadline) = 0;

  // As recv, but hands the bytes to `consume` in consecutive pieces, each a multiple of `unit`
  // bytes except that nothing else divides the last one; `size` is a multiple of `unit`, and
  // `unit` at most 64. A piece is aligned to `unit` when that is a power of two, and is valid
  // only during the call. This is how a reduction reads
  // straight out of shared memory, or out of a socket through a scratch that stays in the cache.
  // `consume` may call send, but neither recv nor flush; when it fails, so does the call.
  using Consume = FunctionRef<Status(ConstBytes piece)>;
  virtual Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                             Deadline deadline) = 0;

  // Returns once every byte handed to send() may be overwritten.
  virtual Status flush(Deadline deadline) = 0;

  // Sends `out` to `to` while filling `in` from `from`; both are free on return.
  Status exchange(int to, ConstBytes out, int from, Bytes in, Deadline deadline) {
    HVD_TRY(send(to, out, deadline));
    HVD_TRY(recv(from, in, deadline));
    return flush(deadline);
  }

  // The memory shared with the ranks of this host, or null when there is none (one rank on the
  // host, or no shared memory to be had). Its ranks are topology().ranks_on(this host), in order;
  // either every rank of a host has it or none.
  virtual Arena* arena() { return nullptr; }

  // Whether the ranks of every host that has several share memory: the same answer on all ranks,
  // even on one that is alone on its host and has no arena.
  virtual bool hosts_share_memory() const { return false; }

  // Ends the communicator: pending and later calls on every rank fail with kAborted (here) or
  // with kPeerLost or kAborted and this reason (elsewhere). Safe from any thread.
  virtual void abort(const Status& reason) = 0;

 protected:
  Transport(int rank, Topology topology) : rank_(rank), topology_(std::move(topology)) {}

 private:
  const int rank_;
  const Topology topology_;
};

}  // namespace hvd
