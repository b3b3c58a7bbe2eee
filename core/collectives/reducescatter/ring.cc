// SPDX-License-Identifier: Apache-2.0
#include "collectives/ring.h"

#include <array>

#include "collectives/blocks.h"
#include "collectives/message_cost.h"
#include "collectives/reducescatter/reducescatter.h"

namespace hvd {
namespace {

// sum = arriving ∘ own, or prepare(own) ∘ arriving with a prescale, which needs a copy of `own`.
void add_own(const Reduction& reduction, Bytes sum, ConstBytes own, ConstBytes arriving) {
  if (reduction.needs_prepare()) {
    copy_bytes(sum, own);
    reduction.prepare(sum);
    reduction.combine(sum, arriving);
  } else {
    const std::array<const std::byte*, 2> both{arriving.data(), own.data()};
    reduction.combine_all(sum, both);
  }
}

}  // namespace

// This rank starts the part of at(-1): it sends its own values for it. From the left neighbour it
// receives the partial sums of the parts of at(-2), at(-3), … and last of its own part. It adds its
// values and forwards each segment.
//
// Partial sums are in `sums`, at the offset that the part has in `in`. None is overwritten during
// the call: a rank that waits until its neighbour has received a sum, while the neighbour waits for
// the next one, would stop the ring.
Status ring_reducescatter(const CollectiveContext& context, ConstBytes in, Bytes out,
                          std::span<const size_t> bytes_of, const Reduction& reduction) {
  const Ring ring(context.topology(), context.rank());
  const int size = context.size();
  const Blocks parts(bytes_of);
  HVD_CHECK(in.size() == parts.total() && out.size() == parts.bytes(context.rank()));
  if (size == 1) {
    copy_bytes(out, in);
    reduction.prepare(out);
    reduction.finish(out);
    return Status::ok();
  }

  const Bytes sums = context.scratch.get(in.size());
  ConstBytes first = parts.of(in, ring.at(-1));
  if (reduction.needs_prepare()) {
    const Bytes scaled = parts.of(sums, ring.at(-1));
    copy_bytes(scaled, first);
    reduction.prepare(scaled);
    first = scaled;
  }
  HVD_TRY(context.send(ring.at(1), first));
  for (int hop = 2; hop <= size; ++hop) {
    const bool last = hop == size;
    const ConstBytes own = parts.of(in, ring.at(-hop));
    const Bytes sum = last ? out : parts.of(sums, ring.at(-hop));
    for (size_t done = 0; done < sum.size(); done += kSegmentBytes) {
      const Bytes segment = segment_at(sum, done, kSegmentBytes);
      size_t offset = done;
      const auto consume = [&](ConstBytes piece) {
        add_own(reduction, sum.subspan(offset, piece.size()), own.subspan(offset, piece.size()),
                piece);
        offset += piece.size();
        return Status::ok();
      };
      HVD_TRY(context.recv_pieces(ring.at(-1), segment.size(), reduction.element_size(), consume));
      if (!last) HVD_TRY(context.send(ring.at(1), segment));
    }
  }
  reduction.finish(out);
  return context.flush();
}

}  // namespace hvd
