// SPDX-License-Identifier: Apache-2.0
// The ranks as a ring that enters and leaves every host once, so that a link between hosts carries
// what passes round once however the ranks are numbered.
#pragma once

#include <vector>

#include "transport/topology.h"

namespace hvd {

class Ring {
 public:
  Ring(const Topology& topology, int rank) {
    ranks_.reserve(topology.size());
    for (int host = 0; host < topology.hosts(); ++host) {
      for (const int other : topology.ranks_on(host)) {
        if (other == rank) position_ = static_cast<int>(ranks_.size());
        ranks_.push_back(other);
      }
    }
  }

  // The rank that is `hops` to the right of this one, or -hops to the left; at most once round.
  int at(int hops) const {
    const int size = static_cast<int>(ranks_.size());
    return ranks_[(position_ + hops + size) % size];
  }

 private:
  std::vector<int> ranks_;
  int position_ = 0;
};

}  // namespace hvd
