// SPDX-License-Identifier: Apache-2.0
// Brings the ranks of a job together: tells each who the others are and on which host, opens
// connections when a mesh first needs them, and watches over everybody.
//
// Ranks on one host talk through shared memory, those on different hosts over TCP; nothing has to
// be configured for that. If all are on one host nothing listens on the network. Every connection
// is authenticated with the job secret before a byte of it is interpreted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/status.h"
#include "net/address.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/control/control_plane.h"
#include "transport/health.h"
#include "transport/link_provider.h"
#include "transport/topology.h"
#include "transport/transport.h"

namespace hvd {

struct FabricOptions {
  int rank = 0;
  int size = 1;
  std::string host_name = "localhost";  // HOROVOD_HOSTNAME
  // Names this gathering of ranks in the rendezvous server: an elastic job gives each new one
  // another name.
  std::string round = "0";
  // Where to listen, by name; empty means all but loopback, or loopback if there is nothing else.
  std::vector<std::string> interfaces;
  bool tls = false;           // HOROVOD_TLS
  bool tags = true;           // HOROVOD_WIRE_PROTECTION=tags; TLS needs none
  bool shared_memory = true;  // off: ranks of one host use Unix sockets
  // HOROVOD_HEARTBEAT_TIMEOUT_SECONDS: who is silent for so long is lost.
  std::chrono::milliseconds heartbeat_timeout{5'000};
  // What the other ranks are told instead of an address where this one listens: tests put a relay
  // in between.
  std::function<Endpoint(const Endpoint& listening)> advertise;
  // How long join() of the process that serves the rendezvous server waits, once a rank is lost,
  // for ranks that have not come yet: they are to hear why.
  std::chrono::milliseconds linger{3'000};
  // Further kinds of links, preferred to shared memory and sockets, in this order; the same on
  // every rank.
  std::vector<LinkProviderFactory> providers;
};

// One per process and round. join is collective, and so are make_mesh and make_control among the
// ranks of the mesh: every one of them calls.
class Fabric {
 public:
  // Returns once all ranks are there. `rendezvous` outlives the fabric and is used only within
  // join, make_mesh and leave; a job of one rank needs none. Fails with kPeerLost on all ranks when
  // one of them ends meanwhile.
  static Result<std::unique_ptr<Fabric>> join(const FabricOptions& options, const Secret& secret,
                                              RendezvousClient* rendezvous, Deadline deadline);
  // leave(). The copies of a fabric and its meshes in a forked child are of no use there, and their
  // end does no harm.
  ~Fabric();

  int rank() const;
  int size() const { return topology().size(); }
  const Topology& topology() const;
  // What every mesh of this fabric looks at. Fails with kPeerLost when a rank dies.
  Health& health();

  // A transport between `ranks`, which are ranks of the job in any order, this one among them.
  // `communicator` is the same on all of them and used only once. Each communicator has its own
  // connections, so that one set of ranks never waits for another's bytes. The fabric outlives it.
  // Fails in the same way on all ranks of a host; a host without shared memory to give is no
  // failure. kPeerLost, for the whole job, if one of `ranks` has left without making the mesh.
  Result<std::unique_ptr<Transport>> make_mesh(uint64_t communicator, const std::vector<int>& ranks,
                                               Deadline deadline);

  // The control plane of the communicator whose mesh that is, or whose mesh stands behind it; once
  // for each. The mesh outlives it.
  Result<std::unique_ptr<ControlPlane>> make_control(uint64_t communicator, Transport& mesh,
                                                     Deadline deadline);

  // Ends the membership in peace: for the others our end is no loss from now on, and what remains
  // of our meshes fails with kAborted. May be called twice.
  void leave();

  // Where it listens for other hosts; empty when all ranks share one. For tests and logs.
  std::vector<std::string> listening_on() const;

 private:
  class Impl;
  explicit Fabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  const ForkGeneration fork_generation_;
};

}  // namespace hvd
