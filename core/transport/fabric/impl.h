// SPDX-License-Identifier: Apache-2.0
// The implementation of Fabric: join.cc has join(), communicators.cc makes meshes and control
// planes, life.cc has the thread hvd-net and leave().
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "net/channel.h"
#include "net/poller.h"
#include "transport/control/socket_waker.h"
#include "transport/fabric.h"
#include "transport/link_provider.h"
#include "transport/shm/lifeline.h"
#include "transport/shm/shm_group.h"
#include "transport/tcp/peer_acceptor.h"
#include "transport/tcp/peer_directory.h"
#include "transport/tcp/peer_watch.h"
#include "transport/tcp/pending_connections.h"
#include "transport/waiting.h"

namespace hvd {

// Threads: as for Fabric. Each member below that hvd-net uses has its own lock, or a comment.
class Fabric::Impl {
 public:
  Impl(const FabricOptions& options, const Secret& secret, RendezvousClient* rendezvous)
      : options_(options), secret_(secret), rendezvous_(rendezvous) {}
  ~Impl();

  Status join(Deadline deadline);
  // Informs the other ranks why join() failed, so that they do not wait for this one. Returns the
  // first reason that any rank found.
  Status give_up(const Status& why);
  Result<std::unique_ptr<Transport>> make_mesh(uint64_t communicator, const std::vector<int>& ranks,
                                               Deadline deadline) HVD_EXCLUDES(meshes_mutex_);
  Result<std::unique_ptr<ControlPlane>> make_control(uint64_t communicator, Transport& mesh,
                                                     Deadline deadline) HVD_EXCLUDES(meshes_mutex_);
  void leave();

  // Opens an authenticated connection to rank `to` of the job and sends the greeting. Tries again
  // until the deadline unless the peer refuses.
  Result<AuthenticatedStream> open(int to, Hello::Purpose purpose, uint64_t communicator,
                                   Deadline deadline);

  const Topology& topology() const { return *topology_; }
  Health& health() { return health_; }
  int rank() const { return options_.rank; }
  const std::vector<std::string>& listening_on() const { return listening_on_; }

 private:
  // The data of a mesh that make_control() needs. make_mesh() makes it; it exists as long as the
  // mesh.
  struct Made {
    std::vector<int> ranks;  // of the job
    ShmGroup* shm_group;     // or null
  };

  // Parts of give_up(). The first rank that has not published its record, or -1.
  int first_missing();
  // The rendezvous server ends with this process. A rank that arrives later would find no server
  // and report a network error. So this waits for at most options_.linger until all ranks have
  // received the loss.
  void inform_late_ranks(int lost);

  // Steps of join(): listen; exchange records through the rendezvous server; start hvd-net; connect
  // the watch.
  Status bind_listeners(PeerRecord& record, std::vector<Fd>& listeners);
  Status gather(const PeerRecord& record, Deadline deadline);
  Status start(Fd local_listener, std::vector<Fd> listeners);
  Status connect_watches(Deadline deadline);

  Result<AuthenticatedStream> try_open(int to, Deadline deadline);
  // The receiving end of a data link, over a connection that `from` has opened.
  std::unique_ptr<InLink> make_in_link(int from, AuthenticatedStream peer) const;
  // Whether data to and from `peer` has tags: between hosts, unless TLS protects it or the setting
  // is `none`.
  bool needs_tags(int peer) const;
  // The status for a failed request to the rendezvous server. The loss of a rank also fails health_
  // and so all meshes.
  Status rendezvous_failure(const Status& failure);
  // The providers of the two kinds of links that every fabric has. `made` receives the ShmGroup,
  // for make_control().
  Result<std::unique_ptr<LinkProvider>> make_shm_provider(const CommunicatorContext& context,
                                                          Made& made);
  Result<std::unique_ptr<LinkProvider>> make_stream_provider(const CommunicatorContext& context)
      HVD_EXCLUDES(meshes_mutex_);
  // Whether every host with several ranks shares memory; all ranks get the same answer.
  Result<bool> hosts_share_memory(uint64_t communicator, const Topology& topology,
                                  const std::vector<int>& ranks, Deadline deadline);
  // The connection of one edge of the control tree: the child opens it, the parent accepts it.
  Result<Channel> open_control(uint64_t communicator, int to, Deadline deadline);
  Result<Channel> accept_control(uint64_t communicator, int from, Deadline deadline);
  // Key at the rendezvous server; `first_rank` is the first rank of the communicator on the host.
  std::string shared_memory_key(uint64_t communicator, int first_rank) const;

  // On the thread hvd-net.
  void run() noexcept;
  // One iteration of the loop: waits for events and handles them.
  void serve();
  // Passes an authenticated connection to its owner, by the purpose in its greeting.
  Status on_peer(const Hello& hello, AuthenticatedStream peer);
  // The pid of the peer's process, or 0 if it is not visible here or is this process.
  int watchable_pid(int peer) const;

  // Constant once join() has returned.
  const FabricOptions options_;
  const Secret secret_;
  RendezvousClient* const rendezvous_;
  Health health_;
  std::optional<PeerDirectory> directory_;
  std::optional<Topology> topology_;
  std::vector<std::string> listening_on_;
  WaitPolicy policy_;
  bool entered_ = false;  // this rank is in the group of this round at the rendezvous server

  LifelineHolder lifelines_;  // installed on hvd-net
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<PeerWatch> watch_;
  std::unique_ptr<SocketWaker> waker_;
  std::unique_ptr<PeerAcceptor> peer_acceptor_;  // hvd-net only, once that thread runs
  PendingConnections pending_connections_;

  Mutex meshes_mutex_;
  std::map<uint64_t, Made> meshes_ HVD_GUARDED_BY(meshes_mutex_);

  std::vector<PollEvent> events_;  // hvd-net only
  // Made in advance, since there is no memory for it when it is needed.
  const Status no_memory_ = unavailable(
      "no memory is left for the network thread; free memory, then shut down and initialize again");
  std::atomic<bool> left_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace hvd
