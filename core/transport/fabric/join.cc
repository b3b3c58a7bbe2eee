#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/thread.h"
#include "net/socket.h"
#include "transport/fabric/impl.h"
#include "transport/tcp/local_socket.h"

namespace hvd {
namespace {

constexpr size_t kMostAddresses = 16;

std::string record_key(const std::string& round, int rank) {
  return fmt::format("{}/rank/{}", round, rank);
}

Result<std::vector<Interface>> chosen_interfaces(const std::vector<std::string>& names) {
  HVD_TRY_ASSIGN(std::vector<Interface> found, public_interfaces(names));
  if (found.size() > kMostAddresses) found.resize(kMostAddresses);
  return found;
}

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
  watch_ = std::make_unique<PeerWatch>(options_.rank, options_.size, options_.heartbeat_timeout,
                                       *poller_, health_);
  ringer_ = std::make_unique<Ringer>(*poller_);
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

}  // namespace hvd
