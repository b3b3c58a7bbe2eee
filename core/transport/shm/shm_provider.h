// SPDX-License-Identifier: Apache-2.0
// The links of a communicator through shared memory: a pipe for each pair of ranks of this host.
#pragma once

#include <memory>
#include <vector>

#include "transport/link_provider.h"
#include "transport/shm/shm_group.h"
#include "transport/topology.h"

namespace hvd {

// All links exist from the start, so connect() never waits. Threads and failures: see LinkProvider.
class ShmProvider final : public LinkProvider {
 public:
  // `rank` is the one of this process in the communicator that `topology` describes.
  ShmProvider(std::unique_ptr<ShmGroup> group, const Topology& topology, int rank);

  bool reaches(int peer) const override { return local_ranks_[peer] >= 0; }
  Result<OutLink*> connect(int to, Deadline deadline) override;
  std::vector<Arrival> arrivals() override;
  // Fails when another rank of this host has died or has published a failure.
  Status check() override { return group_->arena().check(); }
  bool has_left(int peer) const override { return group_->arena().has_left(local_ranks_[peer]); }
  Arena* arena() override { return &group_->arena(); }

 private:
  const std::unique_ptr<ShmGroup> group_;
  // By rank of the communicator: the local rank, or -1 for this rank and the ranks of other hosts.
  std::vector<int> local_ranks_;
  bool arrived_ = false;  // arrivals() has returned the links
};

}  // namespace hvd
