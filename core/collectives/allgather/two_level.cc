// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "collectives/allgather/allgather.h"
#include "collectives/blocks.h"
#include "collectives/broadcast/broadcast.h"
#include "transport/subgroup.h"

namespace hvd {
namespace {

// Whether each host holds consecutive ranks, so that its blocks are adjacent in `out`.
bool hosts_hold_neighbours(const Topology& topology) {
  for (int rank = 1; rank < topology.size(); ++rank) {
    if (topology.host_of(rank) < topology.host_of(rank - 1)) return false;
  }
  return true;
}

// Calls visit(rank, its block in rank order, its block in host order) for each rank.
template <typename Visit>
void for_each_block(const Topology& topology, const Blocks& blocks, Bytes by_rank, Bytes by_host,
                    Visit visit) {
  size_t offset = 0;
  for (int host = 0; host < topology.hosts(); ++host) {
    for (const int rank : topology.ranks_on(host)) {
      visit(rank, blocks.of(by_rank, rank), by_host.subspan(offset, blocks.bytes(rank)));
      offset += blocks.bytes(rank);
    }
  }
}

// On leaders: `out` has the blocks of this host; fills in the blocks of the other hosts.
Status exchange_between_leaders(const CollectiveContext& context, Bytes out, const Blocks& blocks) {
  const Topology& topology = context.topology();
  const int host = topology.host_of(context.rank());
  std::vector<int> leaders;
  std::vector<size_t> bytes_of_host;
  for (int h = 0; h < topology.hosts(); ++h) {
    leaders.push_back(topology.ranks_on(h).front());
    size_t bytes = 0;
    for (const int rank : topology.ranks_on(h)) bytes += blocks.bytes(rank);
    bytes_of_host.push_back(bytes);
  }
  SubTransport between(context.transport, leaders);
  const Blocks host_blocks(bytes_of_host);
  // The blocks of consecutive ranks are one range of `out`. Otherwise the leader packs the blocks
  // of its host first and unpacks all blocks into rank order afterwards. `packed` is not scratch,
  // because the allgather between leaders uses that.
  if (hosts_hold_neighbours(topology)) {
    return allgather(context.over(between), host_blocks.of(out, host), out, bytes_of_host);
  }
  std::vector<std::byte> packed(blocks.total());
  for_each_block(topology, blocks, out, packed, [&](int rank, Bytes in_rank, Bytes in_host) {
    if (topology.host_of(rank) == host) copy_bytes(in_host, in_rank);
  });
  HVD_TRY(
      allgather(context.over(between), host_blocks.of(Bytes(packed), host), packed, bytes_of_host));
  for_each_block(topology, blocks, out, packed, [&](int rank, Bytes in_rank, Bytes in_host) {
    if (topology.host_of(rank) != host) copy_bytes(in_rank, in_host);
  });
  return Status::ok();
}

}  // namespace

Status two_level_allgather(const CollectiveContext& context, ConstBytes mine, Bytes out,
                           std::span<const size_t> bytes_of) {
  const Topology& topology = context.topology();
  const Blocks blocks(bytes_of);
  HVD_CHECK(mine.size() == blocks.bytes(context.rank()) && out.size() == blocks.total());

  const std::vector<int>& local = topology.ranks_on(topology.host_of(context.rank()));
  const int leader = local.front();
  if (context.rank() != leader) {
    HVD_TRY(context.send(leader, mine));
  } else {
    copy_bytes(blocks.of(out, leader), mine);
    for (const int rank : local) {
      if (rank != leader) HVD_TRY(context.recv(rank, blocks.of(out, rank)));
    }
    HVD_TRY(exchange_between_leaders(context, out, blocks));
  }
  // When `mine` is in `out`, the broadcast overwrites it with the same bytes. The leader has
  // received it by then.
  SubTransport within(context.transport, local);
  return broadcast(context.over(within), out, /*root=*/0);
}

}  // namespace hvd
