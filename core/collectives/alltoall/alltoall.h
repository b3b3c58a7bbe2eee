// SPDX-License-Identifier: Apache-2.0
// Alltoall: every rank sends a part to every rank. `in` holds the parts that this rank sends, in
// rank order, send_bytes[r] bytes for rank r; `out` gets the parts that it receives, recv_bytes[r]
// bytes from rank r. send_bytes[b] on rank a equals recv_bytes[a] on rank b. `in` and `out` do not
// overlap.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/shared_memory.h"

namespace hvd {

// Pairwise: n - 1 steps. In step k each rank sends to the rank k to its right and receives from the
// rank k to its left, so that no rank is the target of two senders at once. Data is received
// directly into its place. Every byte is sent once; small parts cost one latency together, large
// ones n - 1.
Status pairwise_alltoall(const CollectiveContext& context, ConstBytes in,
                         std::span<const size_t> send_bytes, Bytes out,
                         std::span<const size_t> recv_bytes);

// Through shared memory if all ranks are on one host and have it, else pairwise.
inline Status alltoall(const CollectiveContext& context, ConstBytes in,
                       std::span<const size_t> send_bytes, Bytes out,
                       std::span<const size_t> recv_bytes) {
  if (Arena* arena = arena_of_all(context.transport)) {
    return shared_memory_alltoall(*arena, in, send_bytes, out, recv_bytes, context.deadline);
  }
  return pairwise_alltoall(context, in, send_bytes, out, recv_bytes);
}

}  // namespace hvd
