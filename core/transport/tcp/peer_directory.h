// SPDX-License-Identifier: Apache-2.0
// Who is in the job, on which host, and how to reach each rank. Plain arithmetic over the records
// that all ranks have published, and the same on every rank.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "net/address.h"
#include "transport/shm/segment.h"
#include "transport/tcp/wire.h"
#include "transport/topology.h"

namespace hvd {

// This process, without addresses.
Result<PeerRecord> describe_this_process(const std::string& host_name);

class PeerDirectory {
 public:
  PeerDirectory(int rank, std::vector<PeerRecord> records);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(records_.size()); }
  const PeerRecord& operator[](int rank) const { return records_[rank]; }
  // Hosts of the ranks `among`, in that order.
  Topology topology(const std::vector<int>& among) const;

  // Whether a local socket of that rank can be reached from here.
  bool is_local(int peer) const;
  // Whether no rank needs TCP to reach us, nor we to reach them.
  bool all_local() const;
  // Where to reach a rank that is not local, best first: addresses in one of our own subnets, then
  // the others. Those that would lead back to this machine are left out.
  std::vector<Endpoint> reachable(int peer) const;

  // Ranks under our kernel, which may count as several hosts: containers share its cores. With four
  // of them on two cores 4 bytes take 57 us if this decides how long to spin, else 370.
  int ranks_on_machine() const;

  // Whether processes of `rank` and ours see each other's pids.
  bool shares_pids(int peer) const;
  // How these ranks of one host can share memory.
  SegmentKind segment_kind(const std::vector<int>& ranks) const;

 private:
  bool same_network(int peer) const;
  const int rank_;
  const std::vector<PeerRecord> records_;
};

}  // namespace hvd
