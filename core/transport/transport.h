// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the ranks of one communicator. Code that uses this interface has no sockets;
// code that implements it has no tensors.
//
// One caller at a time, except abort(). Bytes from one rank to another arrive in order and have no
// message boundaries: 3 bytes and then 5 bytes that were sent may be received as 8 bytes. Any
// failure (kPeerLost, kTimeout, kAborted) ends the communicator permanently on every rank, so that
// no rank waits for a peer that has given up.
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
  // in which every rank first waits for its send would deadlock as soon as a chunk exceeds the
  // socket buffers. `out` must stay unchanged until flush() returns, or until this rank receives
  // bytes that rank `to` can only have sent after it had received all of `out`. `to` is not rank().
  virtual Status send(int to, ConstBytes out, Deadline deadline) = 0;

  // Fills all of `in` with the next bytes from rank `from`; pending sends continue meanwhile.
  virtual Status recv(int from, Bytes in, Deadline deadline) = 0;

  // As recv, but passes the bytes to `consume` in consecutive pieces. The size of each piece is a
  // multiple of `unit`, and so is `size`; `unit` is at most 64. A piece is aligned to `unit` if
  // `unit` is a power of two. It is valid only during the call of `consume`. So a reduction reads
  // directly from shared memory, or from a socket through a scratch that stays in the cache.
  // `consume` may call send, but neither recv nor flush. If it fails, recv_pieces fails.
  using Consume = FunctionRef<Status(ConstBytes piece)>;
  virtual Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                             Deadline deadline) = 0;

  // Returns once every buffer passed to send() may be overwritten.
  virtual Status flush(Deadline deadline) = 0;

  // Sends `out` to `to` while filling `in` from `from`; both may be reused on return.
  Status exchange(int to, ConstBytes out, int from, Bytes in, Deadline deadline) {
    HVD_TRY(send(to, out, deadline));
    HVD_TRY(recv(from, in, deadline));
    return flush(deadline);
  }

  // The memory that the ranks of this host share. Null if the host has one rank, or if shared
  // memory is not available. The ranks of the arena are topology().ranks_on(this host), in this
  // order. Either all ranks of a host have an arena or none has one.
  virtual Arena* arena() { return nullptr; }

  // Whether the ranks of a host share memory, on every host with several ranks. The answer is the
  // same on all ranks, even on a rank that is alone on its host and so has no arena.
  virtual bool hosts_share_memory() const { return false; }

  // Ends the communicator. On this rank, calls that run now and later calls fail with kAborted. On
  // the other ranks they fail with `reason`, as kPeerLost or kAborted. Safe from any thread.
  virtual void abort(const Status& reason) = 0;

 protected:
  Transport(int rank, Topology topology) : rank_(rank), topology_(std::move(topology)) {}

 private:
  const int rank_;
  const Topology topology_;
};

}  // namespace hvd
