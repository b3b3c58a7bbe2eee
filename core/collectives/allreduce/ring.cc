// SPDX-License-Identifier: Apache-2.0
// Ring, for n ranks and a buffer of B bytes, which is cut into one chunk per rank.
//
// reduce_scatter: every rank sends its own chunk to the right neighbour. In hop 1, 2, … n - 1 it
// receives the chunk of at(-hop) from the left neighbour, adds its own values and forwards it. The
// rank that adds the last values finishes the chunk.
// allgather: the finished chunks travel round the ring once more and replace the inputs.
// Each chunk is forwarded in segments of kSegmentBytes as soon as they are complete, so that all
// links stay busy without a pause between hops.
//
// Cost: 2 (n-1)/n · B bytes per rank, which is the minimum for any allreduce and any n, and 2 (n-1)
// latencies. So select.cc does not choose it for small B. Adding overlaps with the transfer. A link
// between hosts carries each chunk at most once per phase (ring.h).
//
// The ring needs no scratch, and no flush before it overwrites memory that was sent: only the
// result of a segment overwrites the segment, and this result has passed through the right
// neighbour, which has therefore received the segment.
#include "collectives/ring.h"

#include "collectives/allreduce/allreduce.h"
#include "collectives/chunks.h"
#include "collectives/message_cost.h"

namespace hvd {
namespace {

// Sends a chunk to rank `to` in segments, while the chunk becomes ready from front to back.
class Forwarding {
 public:
  Forwarding(const CollectiveContext& context, int to, Bytes chunk)
      : context_(context), to_(to), chunk_(chunk) {}

  size_t ready() const { return ready_; }

  // `bytes` more bytes of the chunk are ready. Sends every full segment, and the rest at the end.
  Status advance(size_t bytes) {
    ready_ += bytes;
    while (ready_ - sent_ >= kSegmentBytes || (ready_ == chunk_.size() && sent_ < ready_)) {
      const Bytes segment = chunk_.subspan(sent_, std::min(kSegmentBytes, ready_ - sent_));
      HVD_TRY(context_.send(to_, segment));
      sent_ += segment.size();
    }
    return Status::ok();
  }

 private:
  const CollectiveContext& context_;
  const int to_;
  const Bytes chunk_;
  size_t ready_ = 0;
  size_t sent_ = 0;
};

Status reduce_scatter(const CollectiveContext& context, const Ring& ring, const Chunks& chunks,
                      Bytes data, const Reduction& reduction) {
  const Bytes own = chunks.of(data, ring.at(0));
  HVD_TRY(Forwarding(context, ring.at(1), own).advance(own.size()));
  for (int hop = 1; hop < context.size(); ++hop) {
    const Bytes chunk = chunks.of(data, ring.at(-hop));
    const bool complete = hop == context.size() - 1;
    Forwarding forwarding(context, ring.at(1), chunk);
    const auto add = [&](ConstBytes piece) {
      const Bytes sum = chunk.subspan(forwarding.ready(), piece.size());
      reduction.combine(sum, piece);
      if (complete) reduction.finish(sum);
      return forwarding.advance(piece.size());
    };
    HVD_TRY(context.recv_pieces(ring.at(-1), chunk.size(), reduction.element_size(), add));
  }
  return Status::ok();
}

Status allgather(const CollectiveContext& context, const Ring& ring, const Chunks& chunks,
                 Bytes data) {
  for (int hop = 0; hop < context.size() - 1; ++hop) {
    const Bytes chunk = chunks.of(data, ring.at(-hop));
    const bool everywhere = hop == context.size() - 2;
    // The last chunk is not forwarded, so it is received whole: the transport waits more
    // efficiently for one large message than for the ends of many small ones.
    const size_t most = everywhere ? chunk.size() : kSegmentBytes;
    for (size_t done = 0; done < chunk.size();) {
      const Bytes segment = chunk.subspan(done, std::min(most, chunk.size() - done));
      HVD_TRY(context.recv(ring.at(-1), segment));
      if (!everywhere) HVD_TRY(context.send(ring.at(1), segment));
      done += segment.size();
    }
  }
  return Status::ok();
}

}  // namespace

Status ring_allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction) {
  reduction.prepare(data);
  if (context.size() == 1) {
    reduction.finish(data);
    return Status::ok();
  }
  const Ring ring(context.topology(), context.rank());
  const Chunks chunks(data.size(), context.size(), reduction.element_size());
  HVD_TRY(reduce_scatter(context, ring, chunks, data, reduction));
  HVD_TRY(allgather(context, ring, chunks, data));
  return context.flush();
}

}  // namespace hvd
