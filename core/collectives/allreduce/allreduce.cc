// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce/allreduce.h"

#include <fmt/format.h>

#include "collectives/blocks.h"
#include "collectives/shared_memory.h"

namespace hvd {

namespace {

Status check_whole_elements(size_t bytes, const Reduction& reduction) {
  if (bytes % reduction.element_size() == 0) return Status::ok();
  return invalid_argument(fmt::format("allreduce: {} bytes are no whole number of {} elements",
                                      bytes, to_string(reduction.dtype())));
}

}  // namespace

std::span<const AllreduceAlgorithm> offered_allreduce_algorithms() {
  static constexpr AllreduceAlgorithm kOffered[] = {
      AllreduceAlgorithm::kSharedMemory, AllreduceAlgorithm::kRecursiveDoubling,
      AllreduceAlgorithm::kRing,         AllreduceAlgorithm::kHalvingDoubling,
      AllreduceAlgorithm::kTwoLevel,
  };
  return kOffered;
}

Status run_allreduce(AllreduceAlgorithm algorithm, Transport& transport, Bytes data,
                     const Reduction& reduction, const AllreduceOptions& options, Scratch& scratch,
                     Deadline deadline) {
  HVD_TRY(check_whole_elements(data.size(), reduction));
  switch (algorithm) {
    case AllreduceAlgorithm::kRecursiveDoubling:
      return recursive_doubling_allreduce(transport, data, reduction, scratch, deadline);
    case AllreduceAlgorithm::kRing: return ring_allreduce(transport, data, reduction, deadline);
    case AllreduceAlgorithm::kHalvingDoubling:
      return halving_doubling_allreduce(transport, data, reduction, deadline);
    case AllreduceAlgorithm::kSharedMemory:
      return shared_memory_allreduce(*transport.arena(), data, reduction, deadline);
    case AllreduceAlgorithm::kTwoLevel:
      return two_level_allreduce(transport, data, reduction, options, scratch, deadline);
    case AllreduceAlgorithm::kAuto: break;
  }
  return invalid_argument(
      fmt::format("allreduce: {} is no algorithm to run", to_string(algorithm)));
}

Status allreduce_pieces(AllreduceAlgorithm algorithm, Transport& transport,
                        std::span<const Piece> pieces, const Reduction& reduction,
                        const AllreduceOptions& options, Scratch& fusion, Scratch& scratch,
                        Deadline deadline) {
  for (const Piece& piece : pieces) HVD_TRY(check_whole_elements(piece.bytes, reduction));
  if (algorithm == AllreduceAlgorithm::kSharedMemory) {
    return shared_memory_allreduce(*transport.arena(), pieces, reduction, deadline,
                                   options.chunk_bytes);
  }
  if (pieces.size() == 1) {
    const Bytes out(pieces[0].out, pieces[0].bytes);
    copy_bytes(out, ConstBytes(pieces[0].in, pieces[0].bytes));
    return run_allreduce(algorithm, transport, out, reduction, options, scratch, deadline);
  }
  const Pieces all(pieces);
  const Bytes packed = fusion.get(all.total());
  all.copy_from(0, packed.data(), packed.size());
  HVD_TRY(run_allreduce(algorithm, transport, packed, reduction, options, scratch, deadline));
  all.copy_to(0, packed.data(), packed.size());
  return Status::ok();
}

Status allreduce(Transport& transport, Bytes data, const Reduction& reduction,
                 const AllreduceOptions& options, Scratch& scratch, Deadline deadline) {
  HVD_TRY_ASSIGN(const AllreduceSelector selector,
                 AllreduceSelector::make(transport.topology(), transport.hosts_share_memory(),
                                         options, offered_allreduce_algorithms()));
  return run_allreduce(selector.choose(data.size()), transport, data, reduction, options, scratch,
                       deadline);
}

}  // namespace hvd
