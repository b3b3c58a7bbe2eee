// SPDX-License-Identifier: Apache-2.0
#include "collectives/ring.h"

#include "collectives/allgather/allgather.h"
#include "collectives/blocks.h"
#include "collectives/message_cost.h"

namespace hvd {

Status ring_allgather(Transport& transport, ConstBytes mine, Bytes out,
                      std::span<const size_t> bytes_of, Scratch& /*scratch*/, Deadline deadline) {
  const Ring ring(transport.topology(), transport.rank());
  const Blocks blocks(bytes_of);
  HVD_CHECK(mine.size() == blocks.bytes(transport.rank()) && out.size() == blocks.total());

  const Bytes own = blocks.of(out, transport.rank());
  copy_bytes(own, mine);
  if (transport.size() > 1) HVD_TRY(transport.send(ring.at(1), own, deadline));
  // From the left come the blocks of at(-1), at(-2), …; the last one is the right neighbour's own.
  for (int hop = 1; hop < transport.size(); ++hop) {
    const Bytes block = blocks.of(out, ring.at(-hop));
    for (size_t done = 0; done < block.size(); done += kSegmentBytes) {
      const Bytes segment = segment_at(block, done, kSegmentBytes);
      HVD_TRY(transport.recv(ring.at(-1), segment, deadline));
      if (hop + 1 < transport.size()) HVD_TRY(transport.send(ring.at(1), segment, deadline));
    }
  }
  return transport.flush(deadline);
}

}  // namespace hvd
