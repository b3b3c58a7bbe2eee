// SPDX-License-Identifier: Apache-2.0
// Two levels, for h hosts with several ranks each and a buffer of B bytes. The buffer is cut into
// `columns`, one for each rank of the smallest host.
//
//   1. Within the host, through shared memory: reduce-scatter, after which rank i of the host holds
//      column i of the host's sum.
//   2. Between hosts: the ranks of column i, one per host, run an allreduce of that column. They
//      select its algorithm by the size of the column.
//   3. Within the host: allgather of the columns.
//
// Cost for large B: the link of a host carries 2 (h-1)/h · B bytes in each direction, and all ranks
// of the host use it together; an algorithm over all ranks may send that much per rank. Two passes
// through shared memory are added. It has no advantage when hosts have one rank each or share no
// memory; select.cc then excludes it.
#include <numeric>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/shared_memory.h"
#include "collectives/slices.h"
#include "transport/subgroup.h"

namespace hvd {
namespace {

// Bytes of the column of each rank of this host. Rank i of a host works on column i; the ranks of a
// larger host beyond `columns` have no column.
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

// prepare() runs once, before step 1; finish() belongs to step 2, which sees every element once.
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
