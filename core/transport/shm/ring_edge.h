// SPDX-License-Identifier: Apache-2.0
// Edges through memory: rings between a rank and its parent, and a seat with a doorbell for each
// rank. The ranks of one host share the memory, or the threads of one process.
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

// In shared memory, zero at first; one per rank. Whoever polls never looks at the doorbell's line,
// and so does not take it from those who use it.
struct ControlEndpoint {
  alignas(64) Doorbell doorbell;
  alignas(64) std::atomic<uint32_t> closed;
};

// In shared memory, zero at first.
struct ControlRing {
  alignas(64) std::atomic<uint32_t> writer_waits;  // for room, and wants its doorbell rung
  CellRing cells;
};

// Finds seats and rings in the memory of `ranks` ranks. Which ranks are neighbours does not matter:
// each has at most one parent, so that its two rings are named by it alone.
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
  ByteBuffer queue_;
  size_t queue_start_ = 0;
  Urgency queue_urgency_ = Urgency::kUsual;  // of the most urgent message in the queue
};

}  // namespace hvd
