// SPDX-License-Identifier: Apache-2.0
// The interface between Mesh and the kinds of links. A LinkProvider makes the links of one
// communicator of one kind: shared memory (shm/shm_provider.h) or stream sockets
// (tcp/stream_provider.h). A further kind (UCX, RDMA) is a folder with one more implementation, and
// one line in Fabric::Impl::make_mesh, which lists the kinds in order of preference.
//
// Mesh asks for each link once and keeps a plain pointer, so no call of a provider is on the path
// of the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/health.h"
#include "transport/link.h"
#include "transport/topology.h"

namespace hvd {

class Arena;
class RendezvousClient;

// One per communicator and kind of link; Mesh owns it. Ranks are those of the communicator. All
// calls come from the thread that calls the mesh. A provider owns its links, which live as long as
// it does.
class LinkProvider {
 public:
  virtual ~LinkProvider() = default;

  // Whether there are links to and from `peer`. The answer never changes, and both ends of a pair
  // give the same one: otherwise one rank would send where the other does not receive.
  virtual bool reaches(int peer) const = 0;

  // The link to `to`, ready for use; Mesh calls this once per peer, before the first send. May
  // wait. The peer's mesh need not exist yet. Each link has one direction, and its sender opens it.
  // So two ranks that connect to each other at the same moment do not have to agree on one of two
  // connections.
  virtual Result<OutLink*> connect(int to, Deadline deadline) = 0;

  struct Arrival {
    int from;
    InLink* link;
  };
  // The links that have become ready for receiving since the last call; cheap when there are none.
  // The first call, in the constructor of Mesh, returns the links that exist from the start.
  virtual std::vector<Arrival> arrivals() = 0;
  // Readable while arrivals() has links to return; -1 when the first call returns all of them.
  virtual int arrivals_descriptor() const { return -1; }

  // Ok, or the reason why the ranks that this provider reaches can no longer work together. Mesh
  // calls it every 64 polls of a wait and after each sleep; it must not block.
  virtual Status check() { return Status::ok(); }
  // Whether `peer` has left the job cleanly, so that no more bytes will come from it.
  virtual bool has_left(int /*peer*/) const { return false; }

  // The memory that the ranks of this host share, for collectives, or null. At most one provider of
  // a mesh has one.
  virtual Arena* arena() { return nullptr; }
};

// The arguments from which a provider is made.
struct CommunicatorContext {
  uint64_t communicator;              // the same on all ranks, and used once in a round
  int rank;                           // of this process in the communicator
  const Topology& topology;           // valid only during the call
  const std::vector<int>& job_ranks;  // by rank of the communicator; valid only during the call
  RendezvousClient* rendezvous;       // null in a job of one rank; valid only during the call
  const std::string& round;           // prefix of keys at the rendezvous server
  Health& health;                     // outlives the provider
  Deadline deadline;                  // for the call
};

// Makes the provider of one communicator. Collective: all ranks of the communicator call the
// factories in the same order. Returns null if this kind of link is not available to this rank.
// This is not a failure: the next kind in the list makes the links to its peers.
using LinkProviderFactory =
    std::function<Result<std::unique_ptr<LinkProvider>>(const CommunicatorContext& context)>;

}  // namespace hvd
