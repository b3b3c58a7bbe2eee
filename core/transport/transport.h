// SPDX-License-Identifier: Apache-2.0
// Moves bytes between the ranks of one communicator. Code above this interface has no sockets; code
// below it has no tensors.
//
// One caller at a time, except abort(). Between two ranks bytes stay in order and have no message
// boundaries: 3 + 5 bytes sent may be received as 8. Any failure (kPeerLost, kTimeout, kAborted)
// ends the communicator permanently on every rank, so that no rank waits for a peer that has given
// up.
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
  // socket buffers. `out` must stay unchanged until flush() returns, or until a message arrives
  // that the receiver can only have sent after it had all of `out`. `to` is not rank().
  virtual Status send(int to, ConstBytes out, Deadline deadline) = 0;

  // Fills all of `in` with the next bytes from rank `from`; pending sends continue meanwhile.
  virtual Status recv(int from, Bytes in, Deadline deadline) = 0;

  // As recv, but passes the bytes to `consume` in consecutive pieces. Each piece is a multiple of
  // `unit` bytes; `size` is a multiple of `unit`, and `unit` is at most 64. A piece is aligned to
  // `unit` if that is a power of two, and is valid only during the call. So a reduction reads
  // directly from shared memory, or from a socket through a scratch that stays in the cache.
  // `consume` may call send, but neither recv nor flush; if it fails, the call fails.
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

  // The memory shared with the ranks of this host, or null when there is none (one rank on the
  // host, or shared memory is not available). Its ranks are topology().ranks_on(this host), in
  // order; either all ranks of a host have it or none.
  virtual Arena* arena() { return nullptr; }

  // Whether on every host with several ranks these share memory. The answer is the same on all
  // ranks, also on a rank that is alone on its host and has no arena.
  virtual bool hosts_share_memory() const { return false; }

  // Ends the communicator: pending and later calls fail with kAborted on this rank, and with
  // kPeerLost or kAborted and this reason on the other ranks. Safe from any thread.
  virtual void abort(const Status& reason) = 0;

 protected:
  Transport(int rank, Topology topology) : rank_(rank), topology_(std::move(topology)) {}

 private:
  const int rank_;
  const Topology topology_;
};

}  // namespace hvd
