// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/shared_memory.h"
#include "collectives/slices.h"
#include "transport/subgroup.h"

namespace hvd {
namespace {

// The data in as many columns as the smallest host has ranks. Rank i of a host works on column i;
// further ranks of larger hosts have none.
std::vector<size_t> column_bytes(size_t bytes, int columns, int ranks_on_host) {
  const Slices slices(bytes, columns);
  std::vector<size_t> result(ranks_on_host, 0);
  for (int column = 0; column < columns; ++column) result[column] = slices.size(column);
  return result;
}

// The ranks that work on `column`, one per host.
std::vector<int> ranks_of_column(const Topology& topology, int column) {
  std::vector<int> ranks;
  for (int host = 0; host < topology.hosts(); ++host) {
    ranks.push_back(topology.ranks_on(host)[column]);
  }
  return ranks;
}

}  // namespace

// Reduce within the host so that each rank holds one column, reduce each column between the hosts,
// and gather the columns within the host. A host's link carries each byte once per direction
// instead of once per rank, and all ranks of a host use it together.
Status two_level_allreduce(const CollectiveContext& context, Bytes data,
                           const Reduction& reduction) {
  const Topology& topology = context.topology();
  const int me = topology.local_rank(context.rank());
  const int ranks_here =
      static_cast<int>(topology.ranks_on(topology.host_of(context.rank())).size());
  const int columns = topology.smallest_host();
  const auto bytes_of = column_bytes(data.size(), columns, ranks_here);
  const size_t begin = std::accumulate(bytes_of.begin(), bytes_of.begin() + me, size_t{0});
  const Bytes column = data.subspan(begin, bytes_of[me]);

  reduction.prepare(data);
  if (ranks_here > 1) {
    HVD_TRY(shared_memory_reducescatter(*context.transport.arena(), data, column, bytes_of,
                                        reduction.combine_only(), context.deadline));
  }
  if (me < columns) {
    SubTransport between(context.transport, ranks_of_column(topology, me));
    AllreduceOptions inner = context.options;
    inner.algorithm = AllreduceAlgorithm::kAuto;
    HVD_TRY(allreduce({between, context.scratch, context.deadline, inner}, column,
                      reduction.without_prepare()));
  }
  if (ranks_here > 1) {
    HVD_TRY(shared_memory_allgather(*context.transport.arena(), column, data, bytes_of,
                                    context.deadline));
  }
  return Status::ok();
}

}  // namespace hvd
