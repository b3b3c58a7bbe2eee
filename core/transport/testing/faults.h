// SPDX-License-Identifier: Apache-2.0
// A Transport that injects faults into another one: a rank dies, a message is lost, or a call is
// late, at an exact step. A test counts the steps of a run without faults and then fails each step.
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
    kDie,    // the rank's calls return kAborted; the other ranks get kPeerLost with its number
    kDrop,   // if the step is a send, its bytes are dropped and the receiver times out
    kDelay,  // the step starts late by `delay`
  };

  int rank = 0;
  // 0-based index of the call to send, recv, recv_pieces, flush or Arena::wait on that rank.
  size_t step = 0;
  Kind kind = Kind::kDie;
  std::chrono::milliseconds delay{0};
};

// Owns the inner transport. Threads: as for Transport; steps() from any thread.
class FaultyTransport final : public Transport {
 public:
  // Faults of other ranks are ignored, so that all ranks can receive the same plan. The waits of
  // the inner transport's arena are steps too.
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
  // The steps that sent at least one byte, which are the steps where kDrop has an effect. Read it
  // only after the last call.
  const std::vector<size_t>& send_steps() const { return send_steps_; }

 private:
  // Counts one call and applies the faults of the plan. Sets `*drop`, unless null, when a send has
  // to drop its bytes.
  Status step(bool* drop);

  const std::unique_ptr<Transport> inner_;
  std::vector<Fault> plan_;
  bool dead_ = false;
  std::atomic<size_t> steps_{0};
  std::vector<size_t> send_steps_;
};

}  // namespace hvd
