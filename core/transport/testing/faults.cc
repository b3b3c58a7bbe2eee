// SPDX-License-Identifier: Apache-2.0
#include "transport/testing/faults.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "transport/shm/arena.h"

namespace hvd {

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const std::vector<Fault>& plan)
    : Transport(inner->rank(), inner->topology()), inner_(std::move(inner)) {
  for (const Fault& fault : plan) {
    if (fault.rank == rank()) plan_.push_back(fault);
  }
  if (Arena* shared = arena()) {
    shared->set_step_hook([this] { return step(nullptr); });
  }
}

FaultyTransport::~FaultyTransport() {
  if (Arena* shared = arena()) shared->set_step_hook(nullptr);
}

Status FaultyTransport::send(int to, ConstBytes out, Deadline deadline) {
  bool drop = false;
  if (!out.empty()) send_steps_.push_back(steps());
  HVD_TRY(step(&drop));
  return drop ? Status::ok() : inner_->send(to, out, deadline);
}

Status FaultyTransport::recv(int from, Bytes in, Deadline deadline) {
  HVD_TRY(step(nullptr));
  return inner_->recv(from, in, deadline);
}

Status FaultyTransport::recv_pieces(int from, size_t size, size_t unit, Consume consume,
                                    Deadline deadline) {
  HVD_TRY(step(nullptr));
  return inner_->recv_pieces(from, size, unit, consume, deadline);
}

Status FaultyTransport::flush(Deadline deadline) {
  HVD_TRY(step(nullptr));
  return inner_->flush(deadline);
}

Status FaultyTransport::step(bool* drop) {
  const size_t now = steps_.fetch_add(1, std::memory_order_relaxed);
  for (const Fault& fault : plan_) {
    if (fault.step != now) continue;
    switch (fault.kind) {
      case Fault::Kind::kDie:
        dead_ = true;
        inner_->abort(peer_lost(rank(), fmt::format("died at step {}", now)));
        break;
      case Fault::Kind::kDrop:
        if (drop != nullptr) *drop = true;
        break;
      case Fault::Kind::kDelay: std::this_thread::sleep_for(fault.delay); break;
    }
  }
  if (dead_) return aborted(fmt::format("rank {} is dead", rank()));
  return Status::ok();
}

}  // namespace hvd
