// SPDX-License-Identifier: Apache-2.0
// Everything that the ranks of one host share for one communicator: an arena for collectives, a
// pipe for each ordered pair and the control plane, in one segment of memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "net/rendezvous.h"
#include "transport/health.h"
#include "transport/shm/arena.h"
#include "transport/shm/lifeline.h"
#include "transport/shm/pipe.h"
#include "transport/shm/ring_edge.h"
#include "transport/shm/segment.h"

namespace hvd {

struct ShmGroupOptions {
  SegmentKind kind = SegmentKind::kMemfd;
  int local_rank = 0;
  std::vector<int>
      job_ranks;    // the ranks of this host, as the rendezvous server and failures call them
  std::string key;  // of this host and communicator in the rendezvous server; no other use of it
};

class ShmGroup {
 public:
  // Collective over the ranks of the host: the first creates the memory, the others attach. All
  // succeed, or all get kUnavailable with the reason and nothing is left; other errors are those
  // of the rendezvous server and of `health`. `lifelines` and `health` outlive the links.
  static Result<std::unique_ptr<ShmGroup>> join(const ShmGroupOptions& options,
                                                RendezvousClient& rendezvous,
                                                LifelineHolder& lifelines, Health& health,
                                                Deadline deadline);

  // Whether all of `hosts`, given by their key and ranks, have joined or will. The same
  // answer for everybody who asks.
  struct HostMembers {
    std::string key;
    std::vector<int> job_ranks;
  };
  static Result<bool> joined_everywhere(const std::vector<HostMembers>& hosts,
                                        RendezvousClient& rendezvous, const Health& health,
                                        Deadline deadline);

  // The memory is zeroed and large enough, see bytes_needed; every rank of the host has it.
  ShmGroup(std::unique_ptr<Segment> segment, int local_rank, std::vector<int> job_ranks,
           LifelineHolder& lifelines, Health& health);
  static size_t bytes_needed(int ranks);

  Arena& arena() { return *arena_; }
  // For ranks as counted on this host.
  const ControlMemory& control() const { return control_; }
  // From and to the host's `local_rank`-th rank, which is not this one.
  InLink& in(int local_rank) { return *in_[local_rank]; }
  OutLink& out(int local_rank) { return *out_[local_rank]; }

 private:
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Arena> arena_;
  const ControlMemory control_;
  std::vector<std::unique_ptr<PipeIn>> in_;
  std::vector<std::unique_ptr<PipeOut>> out_;
};

}  // namespace hvd
