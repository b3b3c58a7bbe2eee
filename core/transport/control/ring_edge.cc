#include "transport/control/ring_edge.h"

#include <cstring>

#include "transport/shm/segment.h"

namespace hvd {
namespace {

// Header and message go into the ring by one write, so that its reader finds all or nothing.
constexpr size_t kOneWrite = 256;
constexpr size_t kMostKept = 64 << 10;

constexpr size_t kWholeRing = sizeof(ControlRingHeader) + pipe_bytes(ControlMemory::kRingBytes);

ControlRingHeader& header_of(Bytes ring) {
  return *reinterpret_cast<ControlRingHeader*>(ring.data());
}

Bytes pipe_of(Bytes ring) { return ring.subspan(sizeof(ControlRingHeader)); }

}  // namespace

size_t ControlMemory::bytes_needed(int ranks) {
  return static_cast<size_t>(ranks) * (sizeof(ControlSeat) + 2 * kWholeRing);
}

ControlMemory::ControlMemory(Bytes memory, int ranks) : memory_(memory), ranks_(ranks) {
  HVD_CHECK(memory.size() >= bytes_needed(ranks));
  HVD_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(ControlSeat) == 0);
}

ControlSeat& ControlMemory::seat(int rank) const {
  return reinterpret_cast<ControlSeat*>(memory_.data())[rank];
}

Bytes ControlMemory::ring(size_t index) const {
  return memory_.subspan(static_cast<size_t>(ranks_) * sizeof(ControlSeat) + index * kWholeRing,
                         kWholeRing);
}

std::unique_ptr<RingEdge> RingEdge::to_parent(const ControlMemory& memory, int rank, int parent) {
  return std::make_unique<RingEdge>(memory.ring_down(rank), memory.ring_up(rank), memory.seat(rank),
                                    memory.seat(parent));
}

std::unique_ptr<RingEdge> RingEdge::to_child(const ControlMemory& memory, int rank, int child) {
  return std::make_unique<RingEdge>(memory.ring_up(child), memory.ring_down(child),
                                    memory.seat(rank), memory.seat(child));
}

RingEdge::RingEdge(Bytes in, Bytes out, ControlSeat& own, ControlSeat& peer)
    : own_(own),
      peer_(peer),
      in_header_(header_of(in)),
      out_header_(header_of(out)),
      in_(pipe_of(in), ControlMemory::kRingBytes),
      out_(pipe_of(out), ControlMemory::kRingBytes) {
  // No page fault on the way of a message.
  Segment::populate(in);
  Segment::populate(out);
}

RingEdge::~RingEdge() {
  if (mark_.in_child()) return;
  own_.closed.store(1, std::memory_order_release);
  peer_.bell.ring(Urgency::kUsual);
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
    HVD_TRY_ASSIGN(written, out_.write_some(Bytes(frame).first(whole)));
    if (written == whole) {
      peer_.bell.ring(urgency);
      return Status::ok();
    }
  }
  queue(Bytes(frame).first(whole).subspan(written), urgency);
  return flush();
}

void RingEdge::queue(ConstBytes bytes, Urgency urgency) {
  if (urgency == Urgency::kUrgent) queue_urgency_ = urgency;
  // Only when at least half has gone: each byte moves at most once more.
  if (queue_start_ > queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(queue_start_));
    queue_start_ = 0;
  }
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
}

Status RingEdge::flush() {
  // Twice: once more after the reader has been asked to ring, because it may have made room before
  // it could know of that.
  for (int attempt = 0; attempt < 2 && !drained(); ++attempt) {
    if (attempt > 0) {
      out_header_.writer_waits.store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    HVD_TRY_ASSIGN(const size_t written, out_.write_some(ConstBytes(queue_).subspan(queue_start_)));
    queue_start_ += written;
    if (written > 0) peer_.bell.ring(queue_urgency_);
  }
  if (!drained()) return Status::ok();
  queue_.clear();
  queue_start_ = 0;
  queue_urgency_ = Urgency::kUsual;
  if (queue_.capacity() > kMostKept) queue_.shrink_to_fit();
  return Status::ok();
}

Result<int> RingEdge::receive(Take take) {
  if (!drained()) HVD_TRY(flush());
  int count = 0;
  bool made_room = false;
  // Twice: what lies before the end of the ring, and what lies at its beginning.
  for (int part = 0; part < 2; ++part) {
    HVD_TRY_ASSIGN(const ConstBytes piece, in_.peek());
    if (piece.empty()) break;
    HVD_TRY_ASSIGN(const int found, cutter_.feed(piece, take));
    in_.release(piece.size());
    count += found;
    made_room = true;
  }
  if (!made_room) return count;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (in_header_.writer_waits.load(std::memory_order_relaxed) != 0) {
    in_header_.writer_waits.store(0, std::memory_order_relaxed);
    // Urgent, because even an idle engine has to get rid of what it has sent.
    peer_.bell.ring(Urgency::kUrgent);
  }
  return count;
}

bool RingEdge::closed() {
  if (peer_.closed.load(std::memory_order_acquire) == 0) return false;
  const auto left = in_.peek();  // after the look at `closed`, which was the last thing it did
  return left.is_ok() && left->empty();
}

}  // namespace hvd
