// SPDX-License-Identifier: Apache-2.0
// Which ranks of a communicator talk to each other about what to do next: the ranks of a host with
// its leader (the lowest), and leaders with each other. Fan-out is bounded, so that what one rank
// has to do for a decision does not grow with the job, and the way grows with log(ranks).
#pragma once

#include <vector>

#include "transport/topology.h"

namespace hvd {

struct ControlTree {
  // A message within a host costs a tenth of a microsecond, so that few levels matter more; between
  // hosts each costs a system call at both ends.
  static constexpr int kFanOutWithinHost = 8;
  static constexpr int kFanOutBetweenHosts = 4;

  int parent = -1;            // -1 at the root, which is rank 0
  std::vector<int> children;  // ascending

  static ControlTree of(int rank, const Topology& topology);
};

}  // namespace hvd
