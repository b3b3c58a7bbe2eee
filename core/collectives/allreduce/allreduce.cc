// SPDX-License-Identifier: Apache-2.0
#include "collectives/allreduce/allreduce.h"

#include <fmt/format.h>

#include "collectives/blocks.h"
#include "collectives/shared_memory.h"

namespace hvd {

namespace {

Status check_whole_elements(size_t bytes, const Reduction& reduction) {
  if (bytes % reduction.element_size() == 0) return Status::ok();
  return invalid_argument(fmt::format("allreduce: {} bytes are not a whole number of {} elements",
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

Status run_allreduce(const CollectiveContext& context, AllreduceAlgorithm algorithm, Bytes data,
                     const Reduction& reduction) {
  HVD_TRY(check_whole_elements(data.size(), reduction));
  switch (algorithm) {
    case AllreduceAlgorithm::kRecursiveDoubling:
      return recursive_doubling_allreduce(context, data, reduction);
    case AllreduceAlgorithm::kRing: return ring_allreduce(context, data, reduction);
    case AllreduceAlgorithm::kHalvingDoubling:
      return halving_doubling_allreduce(context, data, reduction);
    case AllreduceAlgorithm::kSharedMemory:
      return shared_memory_allreduce(*context.transport.arena(), data, reduction, context.deadline);
    case AllreduceAlgorithm::kTwoLevel: return two_level_allreduce(context, data, reduction);
    case AllreduceAlgorithm::kAuto: break;
  }
  return invalid_argument(
      fmt::format("allreduce: {} does not name an algorithm that can run", to_string(algorithm)));
}

Status allreduce_pieces(const CollectiveContext& context, AllreduceAlgorithm algorithm,
                        std::span<const Piece> pieces, const Reduction& reduction,
                        Scratch& fusion) {
  for (const Piece& piece : pieces) HVD_TRY(check_whole_elements(piece.bytes, reduction));
  if (algorithm == AllreduceAlgorithm::kSharedMemory) {
    return shared_memory_allreduce(*context.transport.arena(), pieces, reduction, context.deadline,
                                   context.options.chunk_bytes);
  }
  if (pieces.size() == 1) {
    const Bytes out(pieces[0].out, pieces[0].bytes);
    copy_bytes(out, ConstBytes(pieces[0].in, pieces[0].bytes));
    return run_allreduce(context, algorithm, out, reduction);
  }
  const Pieces all(pieces);
  const Bytes packed = fusion.get(all.total());
  all.copy_from(0, packed.data(), packed.size());
  HVD_TRY(run_allreduce(context, algorithm, packed, reduction));
  all.copy_to(0, packed.data(), packed.size());
  return Status::ok();
}

Status allreduce(const CollectiveContext& context, Bytes data, const Reduction& reduction) {
  HVD_TRY_ASSIGN(const AllreduceSelector selector,
                 AllreduceSelector::make(context.topology(), context.transport.hosts_share_memory(),
                                         context.options, offered_allreduce_algorithms()));
  return run_allreduce(context, selector.choose(data.size()), data, reduction);
}

}  // namespace hvd
