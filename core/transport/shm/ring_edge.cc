// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/ring_edge.h"

#include <cstring>

#include "transport/shm/segment.h"

namespace hvd {
namespace {

// Up to this size, header and message are written to the ring together: a short message uses one
// cell.
constexpr size_t kOneWrite = 256;
// A drained queue frees more memory than this.
constexpr size_t kMostQueueKept = 64 << 10;

}  // namespace

size_t ControlMemory::bytes_needed(int ranks) {
  return static_cast<size_t>(ranks) * (sizeof(ControlEndpoint) + 2 * sizeof(ControlRing));
}

ControlMemory::ControlMemory(Bytes memory, int ranks) : memory_(memory), ranks_(ranks) {
  HVD_CHECK(memory.size() >= bytes_needed(ranks));
  HVD_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(ControlEndpoint) == 0);
}

ControlEndpoint& ControlMemory::endpoint(int rank) const {
  return reinterpret_cast<ControlEndpoint*>(memory_.data())[rank];
}

ControlRing& ControlMemory::ring(size_t index) const {
  std::byte* rings = memory_.data() + static_cast<size_t>(ranks_) * sizeof(ControlEndpoint);
  return reinterpret_cast<ControlRing*>(rings)[index];
}

std::unique_ptr<RingEdge> RingEdge::to_parent(const ControlMemory& memory, int rank, int parent) {
  return std::make_unique<RingEdge>(memory.ring_down(rank), memory.ring_up(rank),
                                    memory.endpoint(rank), memory.endpoint(parent));
}

std::unique_ptr<RingEdge> RingEdge::to_child(const ControlMemory& memory, int rank, int child) {
  return std::make_unique<RingEdge>(memory.ring_up(child), memory.ring_down(child),
                                    memory.endpoint(rank), memory.endpoint(child));
}

RingEdge::RingEdge(ControlRing& in, ControlRing& out, ControlEndpoint& own, ControlEndpoint& peer)
    : own_(own), peer_(peer), in_ring_(in), out_ring_(out), in_(in.cells), out_(out.cells) {
  // So that no message waits for a page fault. A failure here has no other effect.
  (void)Segment::populate(Bytes(reinterpret_cast<std::byte*>(&in), sizeof(in)));
  (void)Segment::populate(Bytes(reinterpret_cast<std::byte*>(&out), sizeof(out)));
}

RingEdge::~RingEdge() {
  if (fork_generation_.in_child()) return;
  own_.closed.store(1, std::memory_order_release);
  peer_.doorbell.ring(Urgency::kUsual);
}

Status RingEdge::send(ConstBytes message, Urgency urgency) {
  std::array<std::byte, kOneWrite> frame;
  const size_t whole = kMessageHeader + message.size();
  put_length(message.size(), frame);
  if (whole > frame.size()) {
    queue(Bytes(frame).first(kMessageHeader), urgency);
    queue(message, urgency);
    return flush();
  }
  if (!message.empty()) std::memcpy(frame.data() + kMessageHeader, message.data(), message.size());
  size_t written = 0;
  if (drained()) {
    written = out_.write_some(Bytes(frame).first(whole));
    if (written == whole) {
      peer_.doorbell.ring(urgency);
      return Status::ok();
    }
  }
  queue(Bytes(frame).first(whole).subspan(written), urgency);
  return flush();
}

void RingEdge::queue(ConstBytes bytes, Urgency urgency) {
  if (urgency == Urgency::kUrgent) queue_urgency_ = urgency;
  // Compact only when more than half is written, so that each byte moves at most once more.
  if (queue_start_ > queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(queue_start_));
    queue_start_ = 0;
  }
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
}

Status RingEdge::flush() {
  // Two attempts are needed: the reader may make room after the first attempt and before it can see
  // writer_waits. Then it does not ring.
  for (int attempt = 0; attempt < 2 && !drained(); ++attempt) {
    if (attempt > 0) {
      out_ring_.writer_waits.store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    const size_t written = out_.write_some(ConstBytes(queue_).subspan(queue_start_));
    queue_start_ += written;
    if (written > 0) peer_.doorbell.ring(queue_urgency_);
  }
  if (!drained()) return Status::ok();
  queue_.clear();
  queue_start_ = 0;
  queue_urgency_ = Urgency::kUsual;
  if (queue_.capacity() > kMostQueueKept) queue_.shrink_to_fit();
  return Status::ok();
}

Result<int> RingEdge::receive(Take take) {
  if (!drained()) HVD_TRY(flush());
  int count = 0;
  bool made_room = false;
  // At most one full ring per call, so that a fast writer cannot keep this rank here.
  for (size_t cells = 0; cells < CellRing::kCells; ++cells) {
    const ConstBytes piece = in_.peek();
    if (piece.empty()) break;
    HVD_TRY_ASSIGN(const int found, cutter_.feed(piece, take));
    in_.release();
    count += found;
    made_room = true;
  }
  if (!made_room) return count;
  // Pairs with the fence in flush(): either the writer sees the room, or we see writer_waits.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (in_ring_.writer_waits.load(std::memory_order_relaxed) != 0) {
    in_ring_.writer_waits.store(0, std::memory_order_relaxed);
    // Urgent, because the engine has to send the rest of its queue even if it is idle.
    peer_.doorbell.ring(Urgency::kUrgent);
  }
  return count;
}

bool RingEdge::closed() {
  if (peer_.closed.load(std::memory_order_acquire) == 0) return false;
  // After the load of `closed`, which the peer sets after its last message.
  return in_.peek().empty();
}

}  // namespace hvd
