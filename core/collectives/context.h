// SPDX-License-Identifier: Apache-2.0
// CollectiveContext: the arguments that every collective takes in addition to its data. These are
// the transport, the working memory, the deadline and the options of the communicator.
//
// Threads: only the thread that runs the collective uses it, because Transport and Scratch serve
// one caller at a time.
//
// Ownership: it owns nothing. Everything that it refers to must outlive the call. A caller makes a
// context on its stack for one call and passes it by reference. Nested algorithms receive the same
// context, or a copy with the transport of a subgroup.
//
// Failures: a failed call of the transport ends the communicator (transport.h). A collective
// returns that status unchanged; the content of its outputs is then undefined.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/status.h"
#include "collectives/scratch.h"
#include "collectives/select.h"
#include "transport/transport.h"

namespace hvd {

struct CollectiveContext {
  static constexpr AllreduceOptions kDefaultOptions{};

  Transport& transport;
  // One algorithm at a time uses it: before an algorithm calls another one with this context, it
  // must no longer need the memory that it got from here.
  Scratch& scratch;
  // A limit on the time of the whole call, or on the time without progress
  // (Deadline::without_progress_for). When it passes on one rank, the communicator ends on all
  // ranks.
  Deadline deadline;
  // Equal on all ranks, because each rank chooses its algorithm alone. Allreduce uses all of them,
  // reducescatter only `deterministic`, the other collectives none. A reference, so that a call
  // copies no options.
  const AllreduceOptions& options = kDefaultOptions;

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  const Topology& topology() const { return transport.topology(); }

  // The calls of Transport with the deadline of this context.
  Status send(int to, ConstBytes out) const { return transport.send(to, out, deadline); }
  Status recv(int from, Bytes in) const { return transport.recv(from, in, deadline); }
  Status recv_pieces(int from, size_t size, size_t unit, Transport::Consume consume) const {
    return transport.recv_pieces(from, size, unit, consume, deadline);
  }
  Status exchange(int to, ConstBytes out, int from, Bytes in) const {
    return transport.exchange(to, out, from, in, deadline);
  }
  Status flush() const { return transport.flush(deadline); }

  // The same context for the ranks of `subgroup`.
  CollectiveContext over(Transport& subgroup) const {
    return {subgroup, scratch, deadline, options};
  }
};

}  // namespace hvd
