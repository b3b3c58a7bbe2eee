// SPDX-License-Identifier: Apache-2.0
// Which ranks of a communicator exchange control messages: the ranks of a host with its leader (the
// lowest rank), and the leaders with each other. The fan-out is bounded: the work of one rank per
// decision does not grow with the job, and the depth grows with log(ranks).
#pragma once

#include <vector>

#include "transport/topology.h"

namespace hvd {

struct ControlTree {
  // A message within a host costs 0.1 us, so fewer levels matter more than fewer children. Between
  // hosts each message costs a system call at both ends.
  static constexpr int kFanOutWithinHost = 8;
  static constexpr int kFanOutBetweenHosts = 4;

  int parent = -1;            // -1 at the root, which is rank 0
  std::vector<int> children;  // ascending

  static ControlTree of(int rank, const Topology& topology);
};

}  // namespace hvd
