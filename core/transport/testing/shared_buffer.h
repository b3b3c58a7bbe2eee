// SPDX-License-Identifier: Apache-2.0
// A buffer that every rank of a host can address. A collective whose data lies in such a buffer
// reduces it in place, without arena slots. The engine does not use it: tensors of a framework do
// not lie in shared memory. A benchmark row shows what it would gain, so it is in a library of its
// own (hvd_shared_buffer) and not in libhvd.so.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/status.h"
#include "transport/shm/arena.h"
#include "transport/shm/segment.h"

namespace hvd {

// Immutable after make_shared_buffer(); its accessors are safe from any thread. It owns this
// process's mapping, so it must outlive every use of mine() and part(). It may outlive the arena.
class SharedBuffer {
 public:
  SharedBuffer(std::unique_ptr<Segment> segment, int rank, std::vector<Bytes> parts)
      : segment_(std::move(segment)), rank_(rank), parts_(std::move(parts)) {}

  // This rank's part. All parts have the same size and are 64-byte aligned.
  Bytes mine() const { return parts_[rank_]; }
  // The part of the rank with this arena rank.
  Bytes part(int rank) const { return parts_[rank]; }

 private:
  std::unique_ptr<Segment> segment_;
  int rank_;
  std::vector<Bytes> parts_;
};

// Collective over the ranks of `arena`, on the thread that uses the arena; it takes two turns.
// Every rank passes the same `bytes` (the size of one part). All ranks get the buffer, or all get
// kUnavailable with the reason of one rank. On return all pages are in this rank's page table.
Result<std::unique_ptr<SharedBuffer>> make_shared_buffer(Arena& arena, size_t bytes,
                                                         SegmentKind kind, Deadline deadline);

}  // namespace hvd
