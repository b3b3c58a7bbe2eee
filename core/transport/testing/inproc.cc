// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/inproc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "transport/control/tree_control_plane.h"

namespace hvd {
namespace {

constexpr size_t kPieceBytes = 64 << 10;  // stays in the cache between the copy and its consumer

Topology one_rank_per_host(int size) {
  std::vector<int> host_of(size);
  std::iota(host_of.begin(), host_of.end(), 0);
  return Topology(host_of);
}

}  // namespace

Status InprocChannel::push(ConstBytes out) {
  MutexLock lock(mutex_);
  HVD_TRY(closed_);
  if (out.empty()) return Status::ok();
  pending_.push_back({std::vector<std::byte>(out.begin(), out.end()), 0});
  available_ += out.size();
  changed_.notify_all();
  return Status::ok();
}

Result<size_t> InprocChannel::take(Bytes in, size_t least, size_t unit, Deadline deadline) {
  MutexLock lock(mutex_);
  deadline = deadline.renewed();
  while (closed_.is_ok() && available_ < least) {
    if (!changed_.wait(mutex_, deadline) && closed_.is_ok() && available_ < least) {
      return timeout_error(fmt::format("{} of {} bytes arrived in time", available_, least));
    }
  }
  HVD_TRY(closed_);
  const size_t size = round_down(std::min(in.size(), available_), unit);
  for (size_t done = 0; done < size;) {
    Message& front = pending_.front();
    const size_t step = std::min(front.bytes.size() - front.taken, size - done);
    std::memcpy(in.data() + done, front.bytes.data() + front.taken, step);
    done += step;
    front.taken += step;
    if (front.taken == front.bytes.size()) pending_.pop_front();
  }
  available_ -= size;
  changed_.notify_all();
  return size;
}

Status InprocChannel::drain(Deadline deadline) {
  MutexLock lock(mutex_);
  deadline = deadline.renewed();
  while (closed_.is_ok() && available_ > 0) {
    if (!changed_.wait(mutex_, deadline) && closed_.is_ok() && available_ > 0) {
      return timeout_error(fmt::format("{} bytes were not taken in time", available_));
    }
  }
  return undelivered_ ? closed_ : Status::ok();
}

void InprocChannel::close(const Status& reason) {
  MutexLock lock(mutex_);
  if (!closed_.is_ok()) return;
  closed_ = reason;
  undelivered_ = available_ > 0;
  pending_.clear();
  available_ = 0;
  changed_.notify_all();
}

class InprocTransport final : public Transport {
 public:
  InprocTransport(InprocHub& hub, int rank) : Transport(rank, hub.topology_), hub_(hub) {}

  ~InprocTransport() override {
    const Status left = peer_lost(rank(), "closed its transport");
    for (int peer = 0; peer < size(); ++peer) {
      hub_.channel(rank(), peer).close(left);
      hub_.channel(peer, rank()).close(left);
    }
  }

  Status send(int to, ConstBytes out, Deadline /*deadline*/) override {
    HVD_CHECK(to != rank() && to >= 0 && to < size());
    return checked("send to", to, hub_.channel(rank(), to).push(out));
  }

  Status recv(int from, Bytes in, Deadline deadline) override {
    HVD_CHECK(from != rank() && from >= 0 && from < size());
    while (!in.empty()) {
      const auto taken = hub_.channel(from, rank()).take(in, /*least=*/1, /*unit=*/1, deadline);
      if (!taken.is_ok()) return checked("recv from", from, taken.status());
      in = in.subspan(*taken);
    }
    return hub_.status(rank());
  }

  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override {
    HVD_CHECK(from != rank() && from >= 0 && from < this->size());
    HVD_CHECK(unit > 0 && unit <= 64 && size % unit == 0);
    while (size > 0) {
      const Bytes room = Bytes(piece_).first(std::min(size, piece_.size()));
      const auto taken = hub_.channel(from, rank()).take(room, unit, unit, deadline);
      if (!taken.is_ok()) return checked("recv from", from, taken.status());
      const Status consumed = consume(room.first(*taken));
      if (!consumed.is_ok()) return checked("consumer of bytes from", from, consumed);
      size -= *taken;
    }
    return hub_.status(rank());
  }

  Status flush(Deadline deadline) override {
    for (int to = 0; to < size(); ++to) {
      if (to == rank()) continue;
      HVD_TRY(checked("flush to", to, hub_.channel(rank(), to).drain(deadline)));
    }
    return hub_.status(rank());
  }

  void abort(const Status& reason) override {
    const Status seen = seen_by_others(rank(), reason);
    const Status elsewhere =
        seen.code() == StatusCode::kPeerLost
            ? seen
            : aborted(fmt::format("rank {} aborted: {}", rank(), reason.message()));
    (void)hub_.end(rank(), aborted(reason.message()), elsewhere);
  }

 private:
  // Returns ok for ok; a failure ends the communicator on every rank.
  Status checked(std::string_view what, int peer, const Status& status) {
    if (status.is_ok()) return status;
    const Status elsewhere = status.code() == StatusCode::kPeerLost
                                 ? status
                                 : aborted(fmt::format("rank {} gave up: {} rank {}: {}", rank(),
                                                       what, peer, status.message()));
    return hub_.end(rank(), status.with_context(fmt::format("{} rank {}", what, peer)), elsewhere);
  }

  InprocHub& hub_;
  alignas(64) std::array<std::byte, kPieceBytes> piece_;
};

InprocHub::InprocHub(Topology topology)
    : topology_(std::move(topology)), health_(topology_.size()) {
  for (int i = 0; i < size() * size(); ++i) channels_.push_back(std::make_unique<InprocChannel>());
}

InprocHub::InprocHub(int size) : InprocHub(one_rank_per_host(size)) {}

std::unique_ptr<Transport> InprocHub::transport(int rank) {
  HVD_CHECK(rank >= 0 && rank < size());
  return std::make_unique<InprocTransport>(*this, rank);
}

std::unique_ptr<ControlPlane> InprocHub::control(int rank) {
  MutexLock lock(control_mutex_);
  if (control_ == nullptr) {
    auto made = Segment::create(SegmentKind::kHeap, ControlMemory::bytes_needed(size()));
    HVD_CHECK(made.is_ok());
    control_ = std::move(made).value();
  }
  const ControlMemory memory(control_->memory(), size());
  ControlTree tree = ControlTree::of(rank, topology_);
  std::vector<TreeControlPlane::Neighbour> neighbours;
  if (tree.parent >= 0) {
    neighbours.push_back(
        {tree.parent, tree.parent, RingEdge::to_parent(memory, rank, tree.parent)});
  }
  for (const int child : tree.children) {
    neighbours.push_back({child, child, RingEdge::to_child(memory, rank, child)});
  }
  return std::make_unique<TreeControlPlane>(
      std::move(tree), std::move(neighbours), memory.endpoint(rank).doorbell,
      /*own_doorbell=*/nullptr, /*check_host=*/nullptr, health_[rank]);
}

Status InprocHub::status(int rank) {
  if (!health_[rank].failed()) return Status::ok();
  MutexLock lock(ending_);
  return health_[rank].status();
}

Status InprocHub::end(int rank, const Status& here, const Status& elsewhere) {
  MutexLock lock(ending_);
  for (int other = 0; other < size(); ++other) {
    health_[other].fail(other == rank ? here : elsewhere);
  }
  for (auto& channel : channels_) channel->close(elsewhere);
  return health_[rank].status();
}

}  // namespace hvd
