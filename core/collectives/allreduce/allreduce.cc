#include "collectives/allreduce/allreduce.h"

#include <fmt/format.h>

#include "collectives/shared_memory.h"

namespace hvd {

std::span<const AllreduceAlgorithm> offered_allreduce_algorithms() {
  static constexpr AllreduceAlgorithm kOffered[] = {
      AllreduceAlgorithm::kSharedMemory, AllreduceAlgorithm::kRecursiveDoubling,
      AllreduceAlgorithm::kRing,         AllreduceAlgorithm::kHalvingDoubling,
      AllreduceAlgorithm::kTwoLevel,
  };
  return kOffered;
}

Status run_allreduce(AllreduceAlgorithm algorithm, Transport& net, Bytes data,
                     const Reduction& reduction, const AllreduceOptions& options, Scratch& scratch,
                     Deadline deadline) {
  if (data.size() % reduction.element_size() != 0) {
    return invalid_argument(fmt::format("allreduce: {} bytes are no whole number of {} elements",
                                        data.size(), to_string(reduction.dtype())));
  }
  switch (algorithm) {
    case AllreduceAlgorithm::kRecursiveDoubling:
      return recursive_doubling_allreduce(net, data, reduction, scratch, deadline);
    case AllreduceAlgorithm::kRing: return ring_allreduce(net, data, reduction, deadline);
    case AllreduceAlgorithm::kHalvingDoubling:
      return halving_doubling_allreduce(net, data, reduction, deadline);
    case AllreduceAlgorithm::kSharedMemory:
      return shared_memory_allreduce(*net.arena(), data, reduction, deadline);
    case AllreduceAlgorithm::kTwoLevel:
      return two_level_allreduce(net, data, reduction, options, scratch, deadline);
    case AllreduceAlgorithm::kAuto: break;
  }
  return invalid_argument(
      fmt::format("allreduce: {} is no algorithm to run", to_string(algorithm)));
}

Status allreduce(Transport& net, Bytes data, const Reduction& reduction,
                 const AllreduceOptions& options, Scratch& scratch, Deadline deadline) {
  HVD_TRY_ASSIGN(const AllreduceSelector selector,
                 AllreduceSelector::make(net.topology(), net.hosts_share_memory(), options,
                                         offered_allreduce_algorithms()));
  return run_allreduce(selector.choose(data.size()), net, data, reduction, options, scratch,
                       deadline);
}

}  // namespace hvd
