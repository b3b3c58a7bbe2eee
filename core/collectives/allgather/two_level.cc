// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "collectives/allgather/allgather.h"
#include "collectives/blocks.h"
#include "collectives/broadcast/broadcast.h"
#include "transport/subgroup.h"

namespace hvd {
namespace {

bool hosts_hold_neighbours(const Topology& topology) {
  for (int rank = 1; rank < topology.size(); ++rank) {
    if (topology.host_of(rank) < topology.host_of(rank - 1)) return false;
  }
  return true;
}

// Calls visit(block in rank order, the same block in host order) for each rank's block.
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

// `out` has the blocks of this host; fills in those of the others.
Status exchange_between_leaders(Transport& transport, Bytes out, const Blocks& blocks,
                                Scratch& scratch, Deadline deadline) {
  const Topology& topology = transport.topology();
  const int host = topology.host_of(transport.rank());
  std::vector<int> leaders;
  std::vector<size_t> bytes_of_host;
  for (int h = 0; h < topology.hosts(); ++h) {
    leaders.push_back(topology.ranks_on(h).front());
    size_t bytes = 0;
    for (const int rank : topology.ranks_on(h)) bytes += blocks.bytes(rank);
    bytes_of_host.push_back(bytes);
  }
  SubTransport between(transport, leaders);
  const Blocks host_blocks(bytes_of_host);
  // A host with neighbouring ranks has one block in `out`. Otherwise its parts are put side by side
  // first, and everybody's are put into rank order afterwards.
  if (hosts_hold_neighbours(topology)) {
    return allgather(between, host_blocks.of(out, host), out, bytes_of_host, scratch, deadline);
  }
  std::vector<std::byte> packed(blocks.total());
  for_each_block(topology, blocks, out, packed, [&](int rank, Bytes in_rank, Bytes in_host) {
    if (topology.host_of(rank) == host) copy_bytes(in_host, in_rank);
  });
  HVD_TRY(allgather(between, host_blocks.of(Bytes(packed), host), packed, bytes_of_host, scratch,
                    deadline));
  for_each_block(topology, blocks, out, packed, [&](int rank, Bytes in_rank, Bytes in_host) {
    if (topology.host_of(rank) != host) copy_bytes(in_rank, in_host);
  });
  return Status::ok();
}

}  // namespace

Status two_level_allgather(Transport& transport, ConstBytes mine, Bytes out,
                           std::span<const size_t> bytes_of, Scratch& scratch, Deadline deadline) {
  const Topology& topology = transport.topology();
  const Blocks blocks(bytes_of);
  HVD_CHECK(mine.size() == blocks.bytes(transport.rank()) && out.size() == blocks.total());

  const std::vector<int>& local = topology.ranks_on(topology.host_of(transport.rank()));
  const int leader = local.front();
  if (transport.rank() != leader) {
    HVD_TRY(transport.send(leader, mine, deadline));
  } else {
    copy_bytes(blocks.of(out, leader), mine);
    for (const int rank : local) {
      if (rank != leader) HVD_TRY(transport.recv(rank, blocks.of(out, rank), deadline));
    }
    HVD_TRY(exchange_between_leaders(transport, out, blocks, scratch, deadline));
  }
  // When `mine` lies in `out` it is overwritten here with the same bytes: by then the leader has
  // it.
  SubTransport within(transport, local);
  return broadcast(within, out, /*root=*/0, deadline);
}

}  // namespace hvd
