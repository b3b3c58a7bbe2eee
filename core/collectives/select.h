// SPDX-License-Identifier: Apache-2.0
// Which allreduce to run. Decided from a cost model by arithmetic alone, equal on all ranks:
// nothing is exchanged, so nothing can disagree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "transport/topology.h"

namespace hvd {

enum class AllreduceAlgorithm : uint8_t {
  kAuto,               // whichever the model says is quickest
  kSharedMemory,       // all ranks on one host, through memory they share
  kRecursiveDoubling,  // fewest rounds
  kRing,               // least data, streamed
  kHalvingDoubling,    // least data in few rounds
  kTwoLevel,           // inside each host, then between hosts
};

// "recursive_doubling" for kRecursiveDoubling: the values of HOROVOD_ALLREDUCE_ALGORITHM.
std::string_view to_string(AllreduceAlgorithm algorithm);
// The failure names what is accepted.
Result<AllreduceAlgorithm> parse_allreduce_algorithm(std::string_view name);

struct LinkCost {
  double latency_us;    // one way, of a few bytes
  double bytes_per_us;  // of one host's link, shared by the ranks that use it at the same time
};

// The defaults were measured on two cores: TCP with spinning receivers (5-7 us), here at 10 Gbit/s;
// messages through shared memory; additions of float32 in the outer caches.
struct CostModel {
  LinkCost between_hosts{6.0, 1250.0};
  LinkCost within_host{0.3, 8000.0};
  double combine_bytes_per_us = 20000.0;
};

// Time grows linearly with size for every algorithm.
struct Cost {
  double fixed_us = 0;
  double us_per_byte = 0;
  double at(size_t bytes) const { return fixed_us + us_per_byte * static_cast<double>(bytes); }
};
// Of any algorithm but kAuto; it need not be possible there.
Cost estimate(AllreduceAlgorithm algorithm, const Topology& topology, const CostModel& model);

struct AllreduceOptions {
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kAuto;
  // The bits of an element's result depend neither on its place nor on the size of the buffer.
  bool deterministic = false;
  // Of the pipeline through shared memory, at most one slot; 0: what was measured to be best.
  size_t chunk_bytes = 0;
  CostModel model;
};

// Made once per communicator: choose() costs nanoseconds, which small operations notice.
class AllreduceSelector {
 public:
  // `share_memory`: Transport::hosts_share_memory(). `offered`: what there is to choose from. Fails
  // when options.algorithm is impossible here, or not deterministic as asked.
  static Result<AllreduceSelector> make(const Topology& topology, bool share_memory,
                                        const AllreduceOptions& options,
                                        std::span<const AllreduceAlgorithm> offered);

  AllreduceAlgorithm choose(size_t bytes) const;

 private:
  struct Candidate {
    AllreduceAlgorithm algorithm;
    Cost cost;
  };
  std::array<Candidate, 8> candidates_;
  int count_ = 0;
};

}  // namespace hvd
