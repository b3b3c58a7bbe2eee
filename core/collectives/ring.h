// SPDX-License-Identifier: Apache-2.0
// Ring: the ranks ordered host by host. The ring enters and leaves every host once, so that each
// link between hosts carries the circulating data once, however the ranks are numbered.
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

  // The rank `hops` places to the right of this one, or -hops to the left. |hops| is at most the
  // number of ranks.
  int at(int hops) const {
    const int size = static_cast<int>(ranks_.size());
    return ranks_[(position_ + hops + size) % size];
  }

 private:
  std::vector<int> ranks_;
  int position_ = 0;
};

}  // namespace hvd
