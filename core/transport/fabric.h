// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of a job: gives each rank the addresses and hosts of all ranks, opens
// connections when a mesh first needs them, and watches all ranks for failures.
//
// Ranks on one host exchange data through shared memory, ranks on different hosts over TCP; this
// needs no configuration. If all ranks are on one host, nothing listens on the network after
// join(). Every connection is authenticated with the job secret before any of its bytes are
// interpreted.
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
  // Name of this start of the job (a round), and prefix of its keys at the rendezvous server. An
  // elastic job uses another name for each new set of ranks.
  std::string round = "0";
  // Names of the interfaces to listen on. Empty: all except loopback, or loopback if there is no
  // other.
  std::vector<std::string> interfaces;
  bool tls = false;           // HOROVOD_TLS
  bool tags = true;           // HOROVOD_WIRE_PROTECTION=tags; ignored with TLS
  bool shared_memory = true;  // off: ranks of one host use Unix sockets
  // HOROVOD_HEARTBEAT_TIMEOUT_SECONDS: a rank that is silent for this long is lost.
  std::chrono::milliseconds heartbeat_timeout{5'000};
  // Maps an address where this rank listens to the address that it publishes. Tests put a relay
  // between the two.
  std::function<Endpoint(const Endpoint& listening)> advertise;
  // Used in the process that runs the rendezvous server. A failed join() keeps the server running
  // for this time, so that ranks that arrive later learn the reason.
  std::chrono::milliseconds linger{3'000};
  // Further kinds of links, preferred to shared memory and sockets, in this order; the same on
  // every rank.
  std::vector<LinkProviderFactory> providers;
};

// The membership of this process in one round of a job; a round is one start of the job on all its
// ranks. One per process and round.
//
// join() is collective over the job, make_mesh() and make_control() over the ranks of the mesh.
// These calls come from one thread at a time; health() is safe from any thread. A fabric owns the
// thread hvd-net, which accepts connections, watches peers and holds the lifelines. The fabric must
// outlive its meshes and control planes. The first loss of a rank fails health() and with it every
// mesh and control plane.
class Fabric {
 public:
  // Returns once all ranks have joined. `rendezvous` must outlive the fabric, which uses it only
  // within join, make_mesh and leave; null in a job of one rank. Fails with kPeerLost on all ranks
  // when one of them ends meanwhile.
  static Result<std::unique_ptr<Fabric>> join(const FabricOptions& options, const Secret& secret,
                                              RendezvousClient* rendezvous, Deadline deadline);
  // Calls leave(). In a forked child the copies of a fabric and its meshes cannot be used;
  // destroying them there does not affect the parent.
  ~Fabric();

  int rank() const;
  int size() const { return topology().size(); }
  const Topology& topology() const;
  // The health that every mesh of this fabric checks. Fails with kPeerLost when a rank dies.
  Health& health();

  // A transport between `ranks`: ranks of the job in any order, including this one. `communicator`
  // is the same on all of them and used only once. Each communicator has its own connections, so
  // that one set of ranks never waits for the bytes of another set. The fabric must outlive the
  // transport. All ranks of a host get the same failure. A host without shared memory uses sockets,
  // which is not a failure. Fails with kPeerLost, for the whole job, if one of `ranks` has left
  // without making the mesh.
  Result<std::unique_ptr<Transport>> make_mesh(uint64_t communicator, const std::vector<int>& ranks,
                                               Deadline deadline);

  // The control plane of the communicator that `mesh` belongs to; `mesh` may be a wrapper around
  // the transport that make_mesh() returned. Call it once per communicator. The mesh must outlive
  // it.
  Result<std::unique_ptr<ControlPlane>> make_control(uint64_t communicator, Transport& mesh,
                                                     Deadline deadline);

  // Leaves the job cleanly: from now on the other ranks do not report the end of this rank as a
  // loss, and calls on its meshes fail with kAborted. May be called twice.
  void leave();

  // Endpoints that listen for other hosts; empty when all ranks are on one host. For tests and
  // logs.
  std::vector<std::string> listening_on() const;

 private:
  class Impl;
  explicit Fabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  const ForkGeneration fork_generation_;
};

}  // namespace hvd
