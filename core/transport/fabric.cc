#include "transport/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "net/authenticate.h"
#include "net/poller.h"
#include "net/socket.h"
#include "transport/mesh.h"
#include "transport/shm/host_links.h"
#include "transport/shm/lifeline.h"
#include "transport/tcp/doorman.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/local_socket.h"
#include "transport/tcp/peer_watch.h"
#include "transport/tcp/roster.h"
#include "transport/tcp/stream_links.h"

namespace hvd {
namespace {

constexpr size_t kMostAddresses = 16;
// Communicators that peers know of and we do not yet: a rank gone wild must not fill our memory.
constexpr size_t kMostUnclaimed = 1024;
// A connection that takes longer is tried again, so that a failure of the job is seen meanwhile.
constexpr std::chrono::milliseconds kFirstPatience{2'000};
// For the first address of several.
constexpr std::chrono::milliseconds kHeadStart{250};

std::string record_key(const std::string& round, int rank) {
  return fmt::format("{}/rank/{}", round, rank);
}

Result<std::vector<Interface>> chosen_interfaces(const std::vector<std::string>& names) {
  HVD_TRY_ASSIGN(std::vector<Interface> found, local_interfaces(names));
  const auto loopback = [](const Interface& each) { return each.loopback; };
  if (names.empty() && !std::all_of(found.begin(), found.end(), loopback)) {
    std::erase_if(found, loopback);
  }
  if (found.size() > kMostAddresses) found.resize(kMostAddresses);
  return found;
}

}  // namespace

class Fabric::Impl {
 public:
  Impl(const FabricOptions& options, const Secret& secret, StoreClient* store)
      : options_(options), secret_(secret), store_(store) {}
  ~Impl();

  Status join(Deadline deadline);
  // Tells the others why join() failed, so that they need not wait for us. Returns the reason to
  // give: the first that any rank found.
  Status give_up(const Status& why);
  Result<std::unique_ptr<Transport>> make_mesh(uint64_t communicator, const std::vector<int>& ranks,
                                               Deadline deadline);
  void leave();

  // Opens a connection to `to` and greets it.
  Result<AuthenticatedStream> open(int to, Hello::Purpose purpose, uint64_t communicator,
                                   Deadline deadline);
  Result<std::shared_ptr<Inbox>> claim_inbox(uint64_t communicator) HVD_EXCLUDES(inboxes_mutex_);
  void drop_inbox(uint64_t communicator) HVD_EXCLUDES(inboxes_mutex_);

  const Topology& topology() const { return *topology_; }
  Health& health() { return health_; }
  int rank() const { return options_.rank; }
  const std::vector<std::string>& listening_on() const { return listening_on_; }

 private:
  struct Entry {
    std::shared_ptr<Inbox> inbox;
    bool claimed = false;
  };

  // Steps of join().
  Status bind_listeners(PeerRecord& record, std::vector<Fd>& listeners);
  Status gather(const PeerRecord& record, Deadline deadline);
  Status start(Fd local_listener, std::vector<Fd> listeners);
  Status connect_watches(Deadline deadline);

  Result<AuthenticatedStream> try_open(int to, Deadline deadline);
  // A failure of the rendezvous; all meshes share it if it is the loss of a rank.
  Status lost_at_store(const Status& failure);
  Result<std::unique_ptr<HostLinks>> join_host(uint64_t communicator, const Topology& topology,
                                               int rank, const std::vector<int>& ranks,
                                               Deadline deadline);
  Result<bool> hosts_share_memory(uint64_t communicator, const Topology& topology,
                                  const std::vector<int>& ranks, Deadline deadline);
  // `first_rank`: the first rank of the communicator on the host.
  std::string shared_memory_key(uint64_t communicator, int first_rank) const;

  // The thread hvd-net.
  void run();
  Status on_peer(const Hello& hello, AuthenticatedStream peer);
  Status deliver(const Hello& hello, AuthenticatedStream peer) HVD_EXCLUDES(inboxes_mutex_);
  int watchable_pid(int peer) const;

  // Constant once joined.
  const FabricOptions options_;
  const Secret secret_;
  StoreClient* const store_;
  Health health_;
  std::optional<Roster> roster_;
  std::optional<Topology> topology_;
  std::vector<std::string> listening_on_;
  WaitPolicy policy_;
  bool entered_ = false;  // the group of this round at the store

  LifelineKeeper keeper_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<PeerWatch> watch_;
  std::unique_ptr<Doorman> doorman_;  // hvd-net only, once that runs

  Mutex inboxes_mutex_;
  std::map<uint64_t, Entry> inboxes_ HVD_GUARDED_BY(inboxes_mutex_);

  std::atomic<bool> left_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

namespace {

// The links of one communicator, with ranks counted as the communicator does.
class FabricLinks final : public LinkSource {
 public:
  using Open = std::function<Result<AuthenticatedStream>(int job_rank, Deadline deadline)>;

  FabricLinks(std::vector<int> ranks, std::shared_ptr<Inbox> inbox, Open open,
              std::function<void()> on_close)
      : ranks_(std::move(ranks)),
        inbox_(std::move(inbox)),
        open_(std::move(open)),
        on_close_(std::move(on_close)) {}
  ~FabricLinks() override {
    if (!mark_.in_child()) on_close_();
  }

  Result<std::unique_ptr<OutLink>> connect(int to, Deadline deadline) override {
    HVD_TRY_ASSIGN(AuthenticatedStream peer, open_(ranks_[to], deadline));
    return std::unique_ptr<OutLink>(std::make_unique<StreamOut>(std::move(peer.stream)));
  }

  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> arrived;
    for (Inbox::Item& item : inbox_->take()) {
      const auto found = std::find(ranks_.begin(), ranks_.end(), item.from);
      if (found == ranks_.end()) {
        HVD_LOG(kWarning, "refused rank {}: it does not belong to this communicator", item.from);
        continue;
      }
      arrived.push_back({static_cast<int>(found - ranks_.begin()), std::move(item.link)});
    }
    return arrived;
  }

  int arrivals_descriptor() const override { return inbox_->descriptor(); }

 private:
  const std::vector<int> ranks_;
  const std::shared_ptr<Inbox> inbox_;
  const Open open_;
  const std::function<void()> on_close_;
  const ForkMark mark_;
};

}  // namespace

Status Fabric::Impl::join(Deadline deadline) {
  HVD_TRY_ASSIGN(PeerRecord record, describe_this_process(options_.host_name));
  if (options_.size == 1) {
    roster_.emplace(0, std::vector<PeerRecord>{record});
    topology_ = Topology::one_host(1);
    return Status::ok();
  }
  HVD_TRY_ASSIGN(poller_, Poller::create());
  HVD_TRY_ASSIGN(LocalListener local, listen_local());
  record.local_name = local.name;
  std::vector<Fd> listeners;
  HVD_TRY(bind_listeners(record, listeners));
  HVD_TRY(gather(record, deadline));
  if (roster_->all_local()) listeners.clear();
  HVD_TRY(start(std::move(local.socket), std::move(listeners)));
  return connect_watches(deadline);
}

Status Fabric::Impl::give_up(const Status& why) {
  // Whoever gave up waiting has nothing to say about who is lost: the others wait as long.
  if (!entered_ || why.code() == StatusCode::kTimeout) return why;
  const bool knows = why.lost_rank() >= 0;
  const std::string prefix = fmt::format("rank {}: ", why.lost_rank());  // put there again
  std::string text = why.message();
  if (knows && text.starts_with(prefix)) text.erase(0, prefix.size());
  const Status first = store_->report_loss(knows ? why.lost_rank() : options_.rank, text);
  return knows && first.lost_rank() >= 0 ? first : why;
}

Status Fabric::Impl::bind_listeners(PeerRecord& record, std::vector<Fd>& listeners) {
  HVD_TRY_ASSIGN(const auto interfaces, chosen_interfaces(options_.interfaces));
  for (const Interface& each : interfaces) {
    HVD_TRY_ASSIGN(Fd listener, listen_on(each.address));
    HVD_TRY_ASSIGN(const Endpoint endpoint, local_endpoint(listener));
    record.addresses.push_back({endpoint, static_cast<uint8_t>(each.prefix_length), each.loopback});
    listeners.push_back(std::move(listener));
  }
  return Status::ok();
}

Status Fabric::Impl::gather(const PeerRecord& record, Deadline deadline) {
  HVD_TRY(store_->enter_group(options_.round, options_.rank));
  entered_ = true;
  HVD_TRY(store_->set(record_key(options_.round, options_.rank), encode(record)));
  std::vector<std::string> keys;
  for (int rank = 0; rank < options_.size; ++rank) keys.push_back(record_key(options_.round, rank));
  const auto values = store_->wait_all(keys, deadline);
  if (!values.is_ok()) return values.status().with_context("wait for all ranks of the job");
  std::vector<PeerRecord> records;
  for (int rank = 0; rank < options_.size; ++rank) {
    auto decoded = decode_peer_record((*values)[rank]);
    if (!decoded.is_ok()) return decoded.status().with_context(keys[rank]);
    records.push_back(std::move(decoded).value());
  }
  roster_.emplace(options_.rank, std::move(records));
  std::vector<int> all(options_.size);
  std::iota(all.begin(), all.end(), 0);
  topology_ = roster_->topology(all);
  policy_ = WaitPolicy::for_ranks_on_host(roster_->ranks_on_machine());
  return Status::ok();
}

Status Fabric::Impl::start(Fd local_listener, std::vector<Fd> listeners) {
  watch_ = std::make_unique<PeerWatch>(options_.rank, options_.size, *poller_, health_);
  Doorman::Options options;
  options.rank = options_.rank;
  options.size = options_.size;
  options.round = options_.round;
  options.tls = options_.tls;
  doorman_ = std::make_unique<Doorman>(std::move(options), secret_, *poller_,
                                       [this](const Hello& hello, AuthenticatedStream peer) {
                                         return on_peer(hello, std::move(peer));
                                       });
  HVD_TRY(doorman_->listen(std::move(local_listener),
                           fmt::format("rank {}, socket for its own host", options_.rank)));
  for (Fd& listener : listeners) {
    HVD_TRY_ASSIGN(const Endpoint endpoint, local_endpoint(listener));
    listening_on_.push_back(endpoint.to_string());
    HVD_TRY(doorman_->listen(std::move(listener),
                             fmt::format("rank {}, {}", options_.rank, endpoint.to_string())));
  }
  thread_ = start_thread("hvd-net", [this] { run(); });
  return Status::ok();
}

// On the caller's thread, while hvd-net of every rank accepts.
Status Fabric::Impl::connect_watches(Deadline deadline) {
  for (const int peer : watch_targets(options_.rank, options_.size)) {
    auto opened = open(peer, Hello::Purpose::kWatch, 0, deadline);
    if (!opened.is_ok()) {
      if (health_.failed()) return health_.status();
      const Status& why = opened.status();
      // Others are on their way here and would wait for us.
      health_.fail(why.code() == StatusCode::kPeerLost || why.code() == StatusCode::kUnavailable ||
                           why.code() == StatusCode::kIo
                       ? peer_lost(peer, why.message())
                       : why.with_context(fmt::format("rank {}", peer)));
      return health_.status();
    }
    HVD_TRY(watch_->add(peer, /*outgoing=*/true,
                        Channel(std::move(opened).value(), kWatchMessageLimit),
                        (*roster_)[peer].name(), watchable_pid(peer)));
  }
  const Status complete = watch_->wait_complete(deadline);
  if (!complete.is_ok()) health_.fail(complete);
  return health_.status();
}

Result<AuthenticatedStream> Fabric::Impl::open(int to, Hello::Purpose purpose,
                                               uint64_t communicator, Deadline deadline) {
  for (std::chrono::milliseconds patience = kFirstPatience;; patience *= 2) {
    const Deadline attempt = earlier(deadline, Deadline::after(patience));
    auto opened = try_open(to, attempt);
    if (opened.is_ok()) {
      const Hello hello{options_.round, purpose, options_.rank, to, communicator};
      HVD_TRY(send_hello(*opened, hello, deadline));
      return opened;
    }
    if (health_.failed()) return health_.status();
    if (opened.status().code() != StatusCode::kTimeout || deadline.expired()) {
      return opened.status().with_context((*roster_)[to].name());
    }
  }
}

Result<AuthenticatedStream> Fabric::Impl::try_open(int to, Deadline deadline) {
  const StreamOptions stream_options{options_.tls};
  Result<Fd> socket = unavailable("it has no address that can be reached from this host");
  if (roster_->is_local(to)) {
    socket = connect_local((*roster_)[to].local_name, deadline);
  } else {
    // The best alone at first: the losers of a race are strangers to the peer who hang up.
    const std::vector<Endpoint> where = roster_->reachable(to);
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

Result<std::unique_ptr<Transport>> Fabric::Impl::make_mesh(uint64_t communicator,
                                                           const std::vector<int>& ranks,
                                                           Deadline deadline) {
  const auto found = std::find(ranks.begin(), ranks.end(), options_.rank);
  HVD_CHECK(found != ranks.end());
  for (const int rank : ranks) HVD_CHECK(rank >= 0 && rank < options_.size);
  if (health_.failed()) return health_.status();
  const auto rank = static_cast<int>(found - ranks.begin());
  Topology topology = roster_->topology(ranks);
  auto joined_host = join_host(communicator, topology, rank, ranks, deadline);
  if (!joined_host.is_ok()) return lost_at_store(joined_host.status());
  HVD_TRY_ASSIGN(auto inbox, claim_inbox(communicator));
  auto links = std::make_unique<FabricLinks>(
      ranks, std::move(inbox),
      [this, communicator](int to, Deadline until) {
        return open(to, Hello::Purpose::kData, communicator, until);
      },
      [this, communicator] { drop_inbox(communicator); });
  const auto shared = hosts_share_memory(communicator, topology, ranks, deadline);
  if (!shared.is_ok()) return lost_at_store(shared.status());
  MeshOptions options;
  options.hosts_share_memory = *shared;
  options.job_ranks = ranks;
  options.policy = policy_;
  return std::unique_ptr<Transport>(
      std::make_unique<Mesh>(rank, std::move(topology), std::move(options), health_,
                             std::move(links), std::move(joined_host).value()));
}

Status Fabric::Impl::lost_at_store(const Status& failure) {
  if (failure.lost_rank() < 0) return failure;
  health_.fail(failure);
  return health_.status();
}

Result<std::unique_ptr<HostLinks>> Fabric::Impl::join_host(uint64_t communicator,
                                                           const Topology& topology, int rank,
                                                           const std::vector<int>& ranks,
                                                           Deadline deadline) {
  const std::vector<int>& here = topology.ranks_on(topology.host_of(rank));
  if (here.size() < 2 || !options_.shared_memory) return std::unique_ptr<HostLinks>();
  HostLinksOptions options;
  options.local_rank = topology.local_rank(rank);
  for (const int each : here) options.names.push_back(ranks[each]);
  options.kind = roster_->segment_kind(options.names);
  options.key = shared_memory_key(communicator, options.names.front());
  auto joined = HostLinks::join(options, *store_, keeper_, health_, deadline);
  if (joined.status().code() != StatusCode::kUnavailable) return joined;
  HVD_LOG(kWarning, "{}; its ranks use sockets, which is slower", joined.status().message());
  return std::unique_ptr<HostLinks>();
}

std::string Fabric::Impl::shared_memory_key(uint64_t communicator, int first_rank) const {
  return fmt::format("{}/shm/{}/{}", options_.round, communicator, first_rank);
}

Result<bool> Fabric::Impl::hosts_share_memory(uint64_t communicator, const Topology& topology,
                                              const std::vector<int>& ranks, Deadline deadline) {
  if (topology.largest_host() < 2 || !options_.shared_memory) return false;
  std::vector<HostLinks::Host> hosts;
  for (int host = 0; host < topology.hosts(); ++host) {
    const std::vector<int>& there = topology.ranks_on(host);
    if (there.size() < 2) continue;
    hosts.push_back(
        {shared_memory_key(communicator, ranks[there.front()]), static_cast<int>(there.size())});
  }
  return HostLinks::joined_everywhere(hosts, *store_, health_, deadline);
}

Result<std::shared_ptr<Inbox>> Fabric::Impl::claim_inbox(uint64_t communicator) {
  MutexLock lock(inboxes_mutex_);
  Entry& entry = inboxes_[communicator];
  HVD_CHECK(!entry.claimed);
  if (entry.inbox == nullptr) {
    auto made = Inbox::create();
    if (!made.is_ok()) {
      inboxes_.erase(communicator);
      return made.status();
    }
    entry.inbox = std::move(made).value();
  }
  entry.claimed = true;
  return entry.inbox;
}

void Fabric::Impl::drop_inbox(uint64_t communicator) {
  MutexLock lock(inboxes_mutex_);
  inboxes_.erase(communicator);
}

void Fabric::Impl::run() {
  keeper_.install_on_this_thread();
  std::vector<PollEvent> events;
  while (!stop_) {
    watch_->update();
    if (left_) doorman_.reset();  // nobody is let in any more
    const Status waited =
        poller_->wait(events, doorman_ ? doorman_->next_deadline() : Deadline::never());
    if (!waited.is_ok()) return health_.fail(waited.with_context("network thread"));
    for (const PollEvent& event : events) {
      if (!watch_->on_event(event) && doorman_) (void)doorman_->on_event(event);
    }
    if (doorman_) doorman_->expire();
  }
}

Status Fabric::Impl::on_peer(const Hello& hello, AuthenticatedStream peer) {
  if (hello.purpose == Hello::Purpose::kData) return deliver(hello, std::move(peer));
  return watch_->add(hello.from, /*outgoing=*/false, Channel(std::move(peer), kWatchMessageLimit),
                     (*roster_)[hello.from].name(), watchable_pid(hello.from));
}

Status Fabric::Impl::deliver(const Hello& hello, AuthenticatedStream peer) {
  MutexLock lock(inboxes_mutex_);
  auto found = inboxes_.find(hello.communicator);
  if (found == inboxes_.end()) {
    const auto unclaimed = std::count_if(inboxes_.begin(), inboxes_.end(),
                                         [](const auto& entry) { return !entry.second.claimed; });
    if (unclaimed >= static_cast<std::ptrdiff_t>(kMostUnclaimed)) {
      return unavailable(fmt::format("rank {} asks for one more unknown communicator, {}",
                                     hello.from, hello.communicator));
    }
    HVD_TRY_ASSIGN(auto inbox, Inbox::create());
    found = inboxes_.emplace(hello.communicator, Entry{std::move(inbox)}).first;
  }
  auto link = std::make_unique<StreamIn>(std::move(peer.stream));
  if (found->second.inbox->put({hello.from, std::move(link)})) return Status::ok();
  return precondition(
      fmt::format("rank {} has a link to communicator {} already", hello.from, hello.communicator));
}

int Fabric::Impl::watchable_pid(int peer) const {
  const PeerRecord& record = (*roster_)[peer];
  const bool same_process = record.pid == (*roster_)[options_.rank].pid;
  return roster_->shares_pids(peer) && !same_process ? record.pid : 0;
}

void Fabric::Impl::leave() {
  if (watch_ == nullptr || left_.exchange(true)) return;
  watch_->say_goodbye();
  health_.on_failure(nullptr);
  health_.fail(aborted("this rank has left the job"));
  poller_->wake();
}

// The thread stays until now because meshes that still exist have their lifelines in its hand: it
// would take them with it, and their peers would take us for dead.
Fabric::Impl::~Impl() {
  leave();
  if (entered_) (void)store_->leave_group();
  if (!thread_.joinable()) return;
  stop_ = true;
  poller_->wake();
  thread_.join();
}

Fabric::Fabric(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Fabric::~Fabric() {
  // In a child its thread is missing and its locks may be held by it: nothing of it can be ended.
  if (mark_.in_child()) (void)impl_.release();
}

Result<std::unique_ptr<Fabric>> Fabric::join(const FabricOptions& options, const Secret& secret,
                                             StoreClient* store, Deadline deadline) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return invalid_argument(
        fmt::format("rank {} of {} is no place in a job", options.rank, options.size));
  }
  if (options.round.empty() || options.round.size() > kNameLimit / 2) {
    return invalid_argument("the name of the round is empty or too long");
  }
  if (store == nullptr && options.size > 1) {
    return invalid_argument("a job of several ranks needs a rendezvous store");
  }
  auto impl = std::make_unique<Impl>(options, secret, store);
  if (const Status joined = impl->join(deadline); !joined.is_ok()) return impl->give_up(joined);
  return std::unique_ptr<Fabric>(new Fabric(std::move(impl)));
}

int Fabric::rank() const { return impl_->rank(); }
const Topology& Fabric::topology() const { return impl_->topology(); }
Health& Fabric::health() { return impl_->health(); }
void Fabric::leave() {
  if (!mark_.in_child()) impl_->leave();
}
std::vector<std::string> Fabric::listening_on() const { return impl_->listening_on(); }

Result<std::unique_ptr<Transport>> Fabric::make_mesh(uint64_t communicator,
                                                     const std::vector<int>& ranks,
                                                     Deadline deadline) {
  return impl_->make_mesh(communicator, ranks, deadline);
}

}  // namespace hvd
