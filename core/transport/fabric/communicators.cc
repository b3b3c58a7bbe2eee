// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "net/authenticate.h"
#include "net/retry_pauses.h"
#include "net/socket.h"
#include "transport/control/channel_edge.h"
#include "transport/control/tree_control_plane.h"
#include "transport/fabric/impl.h"
#include "transport/mesh.h"
#include "transport/shm/shm_provider.h"
#include "transport/tcp/local_socket.h"
#include "transport/tcp/stream_provider.h"

namespace hvd {
namespace {

// The time limit of the first connection attempt. Each further attempt has twice the limit. Between
// two attempts the thread checks whether the job has failed.
constexpr std::chrono::milliseconds kFirstPatience{2'000};
// The time for which the best of several addresses is tried alone.
constexpr std::chrono::milliseconds kHeadStart{250};

}  // namespace

Result<AuthenticatedStream> Fabric::Impl::open(int to, Hello::Purpose purpose,
                                               uint64_t communicator, Deadline deadline) {
  RetryPauses pauses(deadline);
  for (std::chrono::milliseconds patience = kFirstPatience;; patience *= 2) {
    const Deadline attempt = earlier(deadline, Deadline::after(patience));
    auto opened = try_open(to, attempt);
    if (opened.is_ok()) {
      const Hello hello{options_.round, purpose, options_.rank, to, communicator};
      HVD_TRY(send_hello(*opened, hello, deadline));
      return opened;
    }
    if (health_.failed()) return health_.status();
    const StatusCode code = opened.status().code();
    if (code == StatusCode::kTimeout && !deadline.expired()) continue;
    // The peer's acceptor may have had too many connections. Another try is safe, because the peer
    // has not received the greeting. If the peer has died or left, the next try is refused, and
    // that failure is final.
    if (code == StatusCode::kPeerLost && pauses.pause()) continue;
    return opened.status().with_context((*directory_)[to].name());
  }
}

Result<AuthenticatedStream> Fabric::Impl::try_open(int to, Deadline deadline) {
  const StreamOptions stream_options{options_.tls};
  Result<Fd> socket = unavailable("it has no address that can be reached from this host");
  if (directory_->is_local(to)) {
    socket = connect_local((*directory_)[to].local_name, deadline);
  } else {
    // The best address is tried alone first. Connecting to all addresses at the same time leaves
    // unused connections, which the peer logs as failed handshakes.
    const std::vector<Endpoint> where = directory_->reachable(to);
    if (!where.empty()) {
      const Deadline head_start = Deadline::after(kHeadStart);
      socket =
          connect_to(where.front(), where.size() == 1 ? deadline : earlier(deadline, head_start));
    }
    if (!socket.is_ok() && where.size() > 1) socket = connect_any(where, deadline);
  }
  if (!socket.is_ok()) return socket.status();
  return connect_stream(std::move(socket).value(), secret_, stream_options, deadline);
}

// Between two ranks of one host the bytes pass only through the kernel, so they need no tags.
bool Fabric::Impl::needs_tags(int peer) const {
  return options_.tags && !options_.tls && !directory_->is_local(peer);
}

std::unique_ptr<InLink> Fabric::Impl::make_in_link(int from, AuthenticatedStream peer) const {
  return make_stream_in(std::move(peer), needs_tags(from),
                        fmt::format("host {} and host {}", (*directory_)[from].host_name,
                                    (*directory_)[options_.rank].host_name));
}

Result<std::unique_ptr<Transport>> Fabric::Impl::make_mesh(uint64_t communicator,
                                                           const std::vector<int>& ranks,
                                                           Deadline deadline) {
  const auto found = std::find(ranks.begin(), ranks.end(), options_.rank);
  HVD_CHECK(found != ranks.end());
  for (const int rank : ranks) HVD_CHECK(rank >= 0 && rank < options_.size);
  if (health_.failed()) return health_.status();
  const auto rank = static_cast<int>(found - ranks.begin());
  Topology topology = directory_->topology(ranks);
  const CommunicatorContext context{communicator, rank,           topology, ranks,
                                    rendezvous_,  options_.round, health_,  deadline};
  Made made{ranks, nullptr};
  // In order of preference. A new kind of link is one folder with a LinkProvider, and one line
  // here.
  std::vector<LinkProviderFactory> factories = options_.providers;
  factories.emplace_back([&](const auto& each) { return make_shm_provider(each, made); });
  factories.emplace_back([&](const auto& each) { return make_stream_provider(each); });
  std::vector<std::unique_ptr<LinkProvider>> providers;
  for (const LinkProviderFactory& make : factories) {
    auto provider = make(context);
    if (!provider.is_ok()) return rendezvous_failure(provider.status());
    if (*provider != nullptr) providers.push_back(std::move(provider).value());
  }
  const auto shared = hosts_share_memory(communicator, topology, ranks, deadline);
  if (!shared.is_ok()) return rendezvous_failure(shared.status());
  {
    MutexLock lock(meshes_mutex_);
    meshes_[communicator] = std::move(made);
  }
  MeshOptions options;
  options.hosts_share_memory = *shared;
  options.job_ranks = ranks;
  options.policy = policy_;
  return std::unique_ptr<Transport>(std::make_unique<Mesh>(
      rank, std::move(topology), std::move(options), health_, std::move(providers)));
}

Status Fabric::Impl::rendezvous_failure(const Status& failure) {
  if (failure.lost_rank() < 0) return failure;
  health_.fail(failure);
  return health_.status();
}

Result<std::unique_ptr<LinkProvider>> Fabric::Impl::make_shm_provider(
    const CommunicatorContext& context, Made& made) {
  const Topology& topology = context.topology;
  const std::vector<int>& here = topology.ranks_on(topology.host_of(context.rank));
  if (here.size() < 2 || !options_.shared_memory) return std::unique_ptr<LinkProvider>();
  ShmGroupOptions options;
  options.local_rank = topology.local_rank(context.rank);
  for (const int each : here) options.job_ranks.push_back(context.job_ranks[each]);
  options.kind = directory_->segment_kind(options.job_ranks);
  options.key = shared_memory_key(context.communicator, options.job_ranks.front());
  auto joined = ShmGroup::join(options, *rendezvous_, lifelines_, health_, context.deadline);
  if (joined.status().code() == StatusCode::kUnavailable) {
    HVD_LOG(kWarning, "{}; its ranks use sockets, which is slower", joined.status().message());
    return std::unique_ptr<LinkProvider>();
  }
  if (!joined.is_ok()) return joined.status();
  made.shm_group = joined->get();
  return std::unique_ptr<LinkProvider>(
      std::make_unique<ShmProvider>(std::move(joined).value(), topology, context.rank));
}

Result<std::unique_ptr<LinkProvider>> Fabric::Impl::make_stream_provider(
    const CommunicatorContext& context) {
  const uint64_t communicator = context.communicator;
  HVD_TRY_ASSIGN(auto inbox, pending_connections_.claim(communicator));
  return std::unique_ptr<LinkProvider>(std::make_unique<StreamProvider>(
      context.job_ranks, std::move(inbox),
      [this, communicator](int to, Deadline until) -> Result<std::unique_ptr<OutLink>> {
        HVD_TRY_ASSIGN(AuthenticatedStream peer,
                       open(to, Hello::Purpose::kData, communicator, until));
        return make_stream_out(std::move(peer), needs_tags(to));
      },
      [this, communicator] {
        pending_connections_.drop(communicator);
        MutexLock lock(meshes_mutex_);
        meshes_.erase(communicator);
      }));
}

std::string Fabric::Impl::shared_memory_key(uint64_t communicator, int first_rank) const {
  return fmt::format("{}/shm/{}/{}", options_.round, communicator, first_rank);
}

Result<bool> Fabric::Impl::hosts_share_memory(uint64_t communicator, const Topology& topology,
                                              const std::vector<int>& ranks, Deadline deadline) {
  if (topology.largest_host() < 2 || !options_.shared_memory) return false;
  std::vector<ShmGroup::HostMembers> hosts;
  for (int host = 0; host < topology.hosts(); ++host) {
    const std::vector<int>& there = topology.ranks_on(host);
    if (there.size() < 2) continue;
    ShmGroup::HostMembers& added = hosts.emplace_back();
    added.key = shared_memory_key(communicator, ranks[there.front()]);
    for (const int each : there) added.job_ranks.push_back(ranks[each]);
  }
  return ShmGroup::joined_everywhere(hosts, *rendezvous_, health_, deadline);
}

Result<Channel> Fabric::Impl::open_control(uint64_t communicator, int to, Deadline deadline) {
  auto opened = open(to, Hello::Purpose::kControl, communicator, deadline);
  if (health_.failed()) return health_.status();
  if (!opened.is_ok()) return opened.status().with_context(fmt::format("rank {}", to));
  return Channel(std::move(opened).value(), kMessageLimit);
}

Result<Channel> Fabric::Impl::accept_control(uint64_t communicator, int from, Deadline deadline) {
  HVD_TRY_ASSIGN(auto peer,
                 pending_connections_.wait_for_control(communicator, from, health_, deadline));
  return Channel(std::move(peer), kMessageLimit);
}

Result<std::unique_ptr<ControlPlane>> Fabric::Impl::make_control(uint64_t communicator,
                                                                 Transport& mesh,
                                                                 Deadline deadline) {
  if (health_.failed()) return health_.status();
  Made made;
  {
    MutexLock lock(meshes_mutex_);
    made = meshes_.at(communicator);
  }
  const Topology& topology = mesh.topology();
  const int rank = mesh.rank();
  const int local_rank = topology.local_rank(rank);
  ControlTree tree = ControlTree::of(rank, topology);
  std::unique_ptr<Doorbell> own_doorbell;
  if (made.shm_group == nullptr) own_doorbell = std::make_unique<Doorbell>();
  Doorbell& doorbell = own_doorbell != nullptr
                           ? *own_doorbell
                           : made.shm_group->control().endpoint(local_rank).doorbell;

  std::vector<TreeControlPlane::Neighbour> neighbours;
  const auto add = [&](int peer) -> Status {
    const bool is_parent = peer == tree.parent;
    TreeControlPlane::Neighbour neighbour{peer, made.ranks[peer], nullptr};
    if (made.shm_group != nullptr && topology.host_of(peer) == topology.host_of(rank)) {
      const ControlMemory& memory = made.shm_group->control();
      const int local_peer = topology.local_rank(peer);
      neighbour.edge = is_parent ? RingEdge::to_parent(memory, local_rank, local_peer)
                                 : RingEdge::to_child(memory, local_rank, local_peer);
    } else {
      auto channel = is_parent ? open_control(communicator, neighbour.job_rank, deadline)
                               : accept_control(communicator, neighbour.job_rank, deadline);
      if (!channel.is_ok()) return channel.status();
      HVD_TRY_ASSIGN(neighbour.edge,
                     ChannelEdge::create(std::move(channel).value(), *waker_, doorbell));
    }
    neighbours.push_back(std::move(neighbour));
    return Status::ok();
  };
  if (tree.parent >= 0) HVD_TRY(add(tree.parent));
  for (const int child : tree.children) HVD_TRY(add(child));
  std::function<Status()> check_host;
  if (Arena* arena = mesh.arena()) check_host = [arena] { return arena->check(); };
  return std::unique_ptr<ControlPlane>(
      std::make_unique<TreeControlPlane>(std::move(tree), std::move(neighbours), doorbell,
                                         std::move(own_doorbell), std::move(check_host), health_));
}

}  // namespace hvd
