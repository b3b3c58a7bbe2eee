// SPDX-License-Identifier: Apache-2.0
// The ranks of the job, their hosts, and the addresses that reach them. Pure computation over the
// records that all ranks have published; the topology is the same on every rank.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "net/address.h"
#include "transport/shm/segment.h"
#include "transport/tcp/wire.h"
#include "transport/topology.h"

namespace hvd {

// The record of this process, without addresses.
Result<PeerRecord> describe_this_process(const std::string& host_name);

// Immutable, so it is safe from any thread. Ranks are those of the job.
class PeerDirectory {
 public:
  PeerDirectory(int rank, std::vector<PeerRecord> records);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(records_.size()); }
  const PeerRecord& operator[](int rank) const { return records_[rank]; }
  // The topology of a communicator whose rank i is rank among[i] of the job.
  Topology topology(const std::vector<int>& among) const;

  // Whether this rank can reach the Unix socket of `peer`: same host and network namespace.
  bool is_local(int peer) const;
  // Whether this rank needs no TCP: it can reach the Unix sockets of all ranks, and all ranks can
  // reach its Unix socket.
  bool all_local() const;
  // Addresses of a rank that is not local, best first: those in one of our own subnets, then the
  // rest. Without addresses that would lead back to this machine.
  std::vector<Endpoint> reachable(int peer) const;

  // Number of ranks on this machine, that is, under the same kernel. Containers of one machine
  // share its cores, although they may be several hosts. With four ranks on two cores an operation
  // of 4 bytes takes 57 us if this number decides how long to spin, and 370 us if the number of
  // ranks of the host decides.
  int ranks_on_machine() const;

  // Whether the process of `peer` and ours are in one pid namespace.
  bool shares_pids(int peer) const;
  // The kind of memory that these ranks of one host can share.
  SegmentKind segment_kind(const std::vector<int>& ranks) const;

 private:
  bool same_network(int peer) const;
  const int rank_;
  const std::vector<PeerRecord> records_;
};

}  // namespace hvd
