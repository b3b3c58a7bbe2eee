// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_provider.h"

#include <utility>

namespace hvd {

ShmProvider::ShmProvider(std::unique_ptr<ShmGroup> group, const Topology& topology, int rank)
    : group_(std::move(group)), local_ranks_(topology.size(), -1) {
  for (const int peer : topology.ranks_on(topology.host_of(rank))) {
    if (peer != rank) local_ranks_[peer] = topology.local_rank(peer);
  }
}

Result<OutLink*> ShmProvider::connect(int to, Deadline /*deadline*/) {
  return &group_->out(local_ranks_[to]);
}

std::vector<LinkProvider::Arrival> ShmProvider::arrivals() {
  std::vector<Arrival> links;
  if (std::exchange(arrived_, true)) return links;
  for (int peer = 0; peer < static_cast<int>(local_ranks_.size()); ++peer) {
    if (reaches(peer)) links.push_back({peer, &group_->in(local_ranks_[peer])});
  }
  return links;
}

}  // namespace hvd
