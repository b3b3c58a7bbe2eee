// SPDX-License-Identifier: Apache-2.0
// A Transport that fails on purpose, around any other: a rank dies, a message is lost, or a call is
// late, at an exact step. A test counts the steps of a run without faults and then fails each one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "transport/transport.h"

namespace hvd {

struct Fault {
  enum class Kind {
    kDie,    // the rank is gone: its calls return kAborted, others get kPeerLost naming it
    kDrop,   // if the step is a send, its bytes vanish and the receiver runs into its deadline
    kDelay,  // the step starts late by `delay`
  };

  int rank = 0;
  // The how-manieth call of send, recv, recv_pieces, flush or Arena::wait on that rank, from 0.
  size_t step = 0;
  Kind kind = Kind::kDie;
  std::chrono::milliseconds delay{0};
};

class FaultyTransport final : public Transport {
 public:
  // Faults of other ranks are ignored, so that all ranks can be given the same plan. The waits of
  // the inner transport's arena become steps too.
  FaultyTransport(std::unique_ptr<Transport> inner, const std::vector<Fault>& plan);
  ~FaultyTransport() override;

  Status send(int to, ConstBytes out, Deadline deadline) override;
  Status recv(int from, Bytes in, Deadline deadline) override;
  Status recv_pieces(int from, size_t size, size_t unit, Consume consume,
                     Deadline deadline) override;
  Status flush(Deadline deadline) override;
  Arena* arena() override { return inner_->arena(); }
  bool hosts_share_memory() const override { return inner_->hosts_share_memory(); }
  void abort(const Status& reason) override { inner_->abort(reason); }

  // Calls begun so far. Safe from any thread.
  size_t steps() const { return steps_.load(std::memory_order_relaxed); }
  // The steps that sent at least one byte: those at which kDrop is a fault. Only after the last
  // call.
  const std::vector<size_t>& send_steps() const { return send_steps_; }

 private:
  // Counts one call and dies or waits if the plan says so; `drop`, unless null, tells a send to
  // swallow its bytes.
  Status step(bool* drop);

  const std::unique_ptr<Transport> inner_;
  std::vector<Fault> plan_;
  bool dead_ = false;
  std::atomic<size_t> steps_{0};
  std::vector<size_t> send_steps_;
};

}  // namespace hvd
