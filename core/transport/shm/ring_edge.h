// SPDX-License-Identifier: Apache-2.0
// Edges of the control tree through memory: two ring buffers between a rank and its parent, and an
// endpoint with a doorbell for each rank. The memory is shared by the ranks of one host, or by the
// threads of one process in tests.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/fork_generation.h"
#include "net/codec.h"
#include "transport/control/cell_ring.h"
#include "transport/control/edge.h"
#include "transport/control/messages.h"

namespace hvd {

// In shared memory, zero at first; one per rank. The doorbell has its own cache line. A rank that
// polls does not read that line, so it does not take the line from the ranks that ring.
struct ControlEndpoint {
  alignas(64) Doorbell doorbell;
  alignas(64) std::atomic<uint32_t> closed;  // 1 once an edge of this rank is destroyed
};

// In shared memory, zero at first.
struct ControlRing {
  // 1: the writer waits for room. The reader clears it and rings the writer's doorbell.
  alignas(64) std::atomic<uint32_t> writer_waits;
  CellRing cells;
};

// Finds endpoints and rings in the memory of `ranks` ranks:
//
//   | endpoint of rank 0 … ranks-1 | ring up, ring down of rank 0 | … of rank 1 | …
//
// The shape of the tree does not matter: each rank has at most one parent, so the child alone
// identifies its two rings. Does not own the memory, which must outlive it.
class ControlMemory {
 public:
  static size_t bytes_needed(int ranks);
  // `memory` is 64-byte aligned and zero at first.
  ControlMemory(Bytes memory, int ranks);

  ControlEndpoint& endpoint(int rank) const;
  ControlRing& ring_up(int child) const { return ring(2 * static_cast<size_t>(child)); }
  ControlRing& ring_down(int child) const { return ring(2 * static_cast<size_t>(child) + 1); }

 private:
  ControlRing& ring(size_t index) const;
  const Bytes memory_;
  const int ranks_;
};

// Threads: as for ControlEdge. The memory must outlive the edge. send() and receive() fail only for
// malformed messages.
class RingEdge final : public ControlEdge {
 public:
  static std::unique_ptr<RingEdge> to_parent(const ControlMemory& memory, int rank, int parent);
  static std::unique_ptr<RingEdge> to_child(const ControlMemory& memory, int rank, int child);
  RingEdge(ControlRing& in, ControlRing& out, ControlEndpoint& own, ControlEndpoint& peer);
  ~RingEdge() override;

  Status send(ConstBytes message, Urgency urgency) override;
  Result<int> receive(Take take) override;
  bool drained() const override { return queue_start_ == queue_.size(); }
  bool closed() override;

 private:
  void queue(ConstBytes bytes, Urgency urgency);
  Status flush();

  const ForkGeneration fork_generation_;
  ControlEndpoint& own_;
  ControlEndpoint& peer_;
  ControlRing& in_ring_;
  ControlRing& out_ring_;
  CellReader in_;
  CellWriter out_;
  MessageCutter cutter_;
  ByteBuffer queue_;                         // bytes that did not fit into the ring
  size_t queue_start_ = 0;                   // bytes before this are already in the ring
  Urgency queue_urgency_ = Urgency::kUsual;  // of the most urgent message in the queue
};

}  // namespace hvd
