// SPDX-License-Identifier: Apache-2.0
// Everything that the ranks of one host share for one communicator, in one segment of memory:
//
//   | arena                                                  | control plane     | pipes         |
//   | failure | progress words | lifelines | (page) | slots  | endpoints | rings | ranks × ranks |
//
// A pipe here is a ring of bytes in this memory, not a pipe of the kernel. The pipe from local rank
// a to local rank b has the index a * ranks + b.
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
  std::vector<int> job_ranks;  // the ranks of this host: ranks of the job, by local rank
  std::string key;             // at the rendezvous server; unique for this host and communicator
};

// Owns the mapping of the segment, the arena and the pipes. Each part has its own rules about
// threads; the accessors are safe from any thread.
class ShmGroup {
 public:
  // Collective over the ranks of the host: local rank 0 creates the memory, the other ranks attach.
  // All succeed, or all get kUnavailable with the reason and no memory is left behind. Other errors
  // are errors of the rendezvous server and of `health`. `lifelines` and `health` must outlive the
  // group.
  static Result<std::unique_ptr<ShmGroup>> join(const ShmGroupOptions& options,
                                                RendezvousClient& rendezvous,
                                                LifelineHolder& lifelines, Health& health,
                                                Deadline deadline);

  // Whether the ranks of every host in `hosts` have joined the group of their host, or will join
  // it. Waits for the answer of every rank. All ranks get the same result.
  struct HostMembers {
    std::string key;
    std::vector<int> job_ranks;
  };
  static Result<bool> joined_everywhere(const std::vector<HostMembers>& hosts,
                                        RendezvousClient& rendezvous, const Health& health,
                                        Deadline deadline);

  // `segment` has at least bytes_needed() bytes, zeroed, and every rank of the host maps it.
  ShmGroup(std::unique_ptr<Segment> segment, int local_rank, std::vector<int> job_ranks,
           LifelineHolder& lifelines, Health& health);
  static size_t bytes_needed(int ranks);

  Arena& arena() { return *arena_; }
  // Uses local ranks.
  const ControlMemory& control() const { return control_; }
  // The links from and to another local rank.
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
