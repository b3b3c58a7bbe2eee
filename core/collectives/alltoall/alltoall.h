// SPDX-License-Identifier: Apache-2.0
// Alltoall: every rank has something for every rank. `in` is what this rank sends, side by side in
// rank order with send_bytes[r] for rank r; `out` is what it gets, with recv_bytes[r] from rank r.
// What rank a sends to b is what b expects from a. `in` and `out` are apart.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "collectives/context.h"
#include "collectives/shared_memory.h"

namespace hvd {

// n - 1 steps; in step k each rank sends to the one k to its right and receives from the one k to
// its left, so that no rank is the target of two at once. Everything goes straight into place.
Status pairwise_alltoall(const CollectiveContext& context, ConstBytes in,
                         std::span<const size_t> send_bytes, Bytes out,
                         std::span<const size_t> recv_bytes);

inline Status alltoall(const CollectiveContext& context, ConstBytes in,
                       std::span<const size_t> send_bytes, Bytes out,
                       std::span<const size_t> recv_bytes) {
  if (Arena* arena = arena_of_all(context.transport)) {
    return shared_memory_alltoall(*arena, in, send_bytes, out, recv_bytes, context.deadline);
  }
  return pairwise_alltoall(context, in, send_bytes, out, recv_bytes);
}

}  // namespace hvd
