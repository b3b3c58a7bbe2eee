// SPDX-License-Identifier: Apache-2.0
// Ring allreduce: each rank sends 2(n-1)/n of the buffer however large n is, the least any
// allreduce can send. The price is 2(n-1) latencies, so select.cc avoids it for small data.
//
// Chunks move right and gain one rank's values per hop; when a chunk has been everywhere its last
// rank finishes it, and it moves right once more round the ring to replace the inputs. A segment
// is passed on as soon as it is complete, so that all links stay busy without a pause between hops.
//
// No scratch, and no wait before memory that was sent is overwritten: what overwrites a segment is
// its own result, which has passed through the right neighbour.
#include "collectives/ring.h"

#include "collectives/allreduce/allreduce.h"
#include "collectives/chunks.h"
#include "collectives/message_cost.h"

namespace hvd {
namespace {

// Sends a chunk that becomes ready from front to back, in segments.
class Forwarding {
 public:
  Forwarding(Transport& transport, int to, Bytes chunk)
      : transport_(transport), to_(to), chunk_(chunk) {}

  size_t ready() const { return ready_; }

  Status advance(size_t bytes, Deadline deadline) {
    ready_ += bytes;
    while (ready_ - sent_ >= kSegmentBytes || (ready_ == chunk_.size() && sent_ < ready_)) {
      const Bytes segment = chunk_.subspan(sent_, std::min(kSegmentBytes, ready_ - sent_));
      HVD_TRY(transport_.send(to_, segment, deadline));
      sent_ += segment.size();
    }
    return Status::ok();
  }

 private:
  Transport& transport_;
  const int to_;
  const Bytes chunk_;
  size_t ready_ = 0;
  size_t sent_ = 0;
};

Status reduce_scatter(Transport& transport, const Ring& ring, const Chunks& chunks, Bytes data,
                      const Reduction& reduction, Deadline deadline) {
  const Bytes own = chunks.of(data, ring.at(0));
  HVD_TRY(Forwarding(transport, ring.at(1), own).advance(own.size(), deadline));
  for (int hop = 1; hop < transport.size(); ++hop) {
    const Bytes chunk = chunks.of(data, ring.at(-hop));
    const bool complete = hop == transport.size() - 1;
    Forwarding forwarding(transport, ring.at(1), chunk);
    const auto add = [&](ConstBytes piece) {
      const Bytes sum = chunk.subspan(forwarding.ready(), piece.size());
      reduction.combine(sum, piece);
      if (complete) reduction.finish(sum);
      return forwarding.advance(piece.size(), deadline);
    };
    HVD_TRY(
        transport.recv_pieces(ring.at(-1), chunk.size(), reduction.element_size(), add, deadline));
  }
  return Status::ok();
}

Status allgather(Transport& transport, const Ring& ring, const Chunks& chunks, Bytes data,
                 Deadline deadline) {
  for (int hop = 0; hop < transport.size() - 1; ++hop) {
    const Bytes chunk = chunks.of(data, ring.at(-hop));
    const bool everywhere = hop == transport.size() - 2;
    // Nobody waits for segments of the last chunk, and the transport waits better for one large
    // message than for the ends of many small ones.
    const size_t most = everywhere ? chunk.size() : kSegmentBytes;
    for (size_t done = 0; done < chunk.size();) {
      const Bytes segment = chunk.subspan(done, std::min(most, chunk.size() - done));
      HVD_TRY(transport.recv(ring.at(-1), segment, deadline));
      if (!everywhere) HVD_TRY(transport.send(ring.at(1), segment, deadline));
      done += segment.size();
    }
  }
  return Status::ok();
}

}  // namespace

Status ring_allreduce(Transport& transport, Bytes data, const Reduction& reduction,
                      Deadline deadline) {
  reduction.prepare(data);
  if (transport.size() == 1) {
    reduction.finish(data);
    return Status::ok();
  }
  const Ring ring(transport.topology(), transport.rank());
  const Chunks chunks(data.size(), transport.size(), reduction.element_size());
  HVD_TRY(reduce_scatter(transport, ring, chunks, data, reduction, deadline));
  HVD_TRY(allgather(transport, ring, chunks, data, deadline));
  return transport.flush(deadline);
}

}  // namespace hvd
