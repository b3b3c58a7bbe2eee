// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "net/socket.h"
#include "transport/fabric/impl.h"
#include "transport/tcp/local_socket.h"

namespace hvd {
namespace {

constexpr size_t kMostAddresses = 16;  // that a rank publishes

std::string record_key(const std::string& round, int rank) {
  return fmt::format("{}/rank/{}", round, rank);
}

// Set by a rank that has received the reason why join() failed.
std::string informed_key(const std::string& round, int rank) {
  return fmt::format("{}/told/{}", round, rank);
}

Result<std::vector<Interface>> chosen_interfaces(const std::vector<std::string>& names) {
  auto found = public_interfaces(names);
  if (!found.is_ok()) return found.status().with_context("HOROVOD_NETWORK_INTERFACES");
  if (found->size() > kMostAddresses) found->resize(kMostAddresses);
  return found;
}

std::string protection(const PeerRecord& record) {
  return std::string("HOROVOD_WIRE_PROTECTION=") + (record.tags ? "tags" : "none");
}

}  // namespace

Status Fabric::Impl::join(Deadline deadline) {
  HVD_TRY_ASSIGN(PeerRecord record, describe_this_process(options_.host_name));
  if (options_.size == 1) {
    if (!options_.interfaces.empty()) {
      const auto found = chosen_interfaces(options_.interfaces);
      if (!found.is_ok()) {
        HVD_LOG(kWarning, "{}; a job of one rank does not use it", found.status().message());
      }
    }
    directory_.emplace(0, std::vector<PeerRecord>{record});
    topology_ = Topology::one_host(1);
    return Status::ok();
  }
  HVD_TRY_ASSIGN(poller_, Poller::create());
  HVD_TRY_ASSIGN(LocalListener local, listen_local());
  record.local_name = local.name;
  record.tags = options_.tags && !options_.tls;
  std::vector<Fd> listeners;
  HVD_TRY(bind_listeners(record, listeners));
  HVD_TRY(gather(record, deadline));
  if (directory_->all_local()) listeners.clear();
  HVD_TRY(start(std::move(local.socket), std::move(listeners)));
  return connect_watches(deadline);
}

Status Fabric::Impl::give_up(const Status& why) {
  if (!entered_) return why;
  // The rest only informs the other ranks. If the rendezvous server does not answer, this rank
  // waits for options_.linger only, and not for the usual limit.
  rendezvous_->set_answer_timeout(options_.linger);
  int lost = why.lost_rank();
  std::string text(reason_without_rank(why));
  if (why.code() == StatusCode::kTimeout) {
    // If all ranks have published their records, the other ranks time out too, with the same
    // information.
    lost = first_missing();
    if (lost < 0) return why;
    text = fmt::format(
        "it had not come when rank {} gave up waiting for it; if it is slow to start, raise "
        "HOROVOD_GLOO_TIMEOUT_SECONDS",
        options_.rank);
  }
  const Status first = rendezvous_->report_loss(lost >= 0 ? lost : options_.rank, text);
  (void)rendezvous_->set(informed_key(options_.round, options_.rank), "");
  if (rendezvous_->is_served_here()) inform_late_ranks(first.lost_rank());
  return why.lost_rank() >= 0 && first.lost_rank() >= 0 ? first : why;
}

int Fabric::Impl::first_missing() {
  const auto keys = rendezvous_->list(fmt::format("{}/rank/", options_.round));
  if (!keys.is_ok()) return -1;
  for (int rank = 0; rank < options_.size; ++rank) {
    const std::string key = record_key(options_.round, rank);
    if (!std::binary_search(keys->begin(), keys->end(), key)) return rank;
  }
  return -1;
}

void Fabric::Impl::inform_late_ranks(int lost) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank != lost && rank != options_.rank) keys.push_back(informed_key(options_.round, rank));
  }
  // The group has lost a rank, so a wait of a member would fail at once: leave it first.
  entered_ = false;
  if (!rendezvous_->leave_group().is_ok()) return;
  (void)rendezvous_->wait_all(keys, Deadline::after(options_.linger));
}

Status Fabric::Impl::bind_listeners(PeerRecord& record, std::vector<Fd>& listeners) {
  HVD_TRY_ASSIGN(const auto interfaces, chosen_interfaces(options_.interfaces));
  for (const Interface& each : interfaces) {
    HVD_TRY_ASSIGN(Fd listener, listen_on(each.address));
    HVD_TRY_ASSIGN(const Endpoint endpoint, local_endpoint(listener));
    const Endpoint shown = options_.advertise ? options_.advertise(endpoint) : endpoint;
    record.addresses.push_back({shown, static_cast<uint8_t>(each.prefix_length), each.loopback});
    listeners.push_back(std::move(listener));
  }
  return Status::ok();
}

Status Fabric::Impl::gather(const PeerRecord& record, Deadline deadline) {
  HVD_TRY(rendezvous_->enter_group(options_.round, options_.rank));
  entered_ = true;
  HVD_TRY(rendezvous_->set(record_key(options_.round, options_.rank), encode(record)));
  std::vector<std::string> keys;
  for (int rank = 0; rank < options_.size; ++rank) keys.push_back(record_key(options_.round, rank));
  const auto values = rendezvous_->wait_all(keys, deadline);
  if (!values.is_ok()) return values.status().with_context("wait for all ranks of the job");
  std::vector<PeerRecord> records;
  for (int rank = 0; rank < options_.size; ++rank) {
    auto decoded = decode_peer_record((*values)[rank]);
    if (!decoded.is_ok()) return decoded.status().with_context(keys[rank]);
    records.push_back(std::move(decoded).value());
    // Checked here, where every rank sees all records: at the first data link only two ranks would
    // report the difference.
    if (records.back().tags != record.tags) {
      return precondition(
          fmt::format("rank {} ({}) has {}, rank {} ({}) has {}; set it to the same "
                      "value on every rank",
                      rank, records.back().name(), protection(records.back()), options_.rank,
                      record.name(), protection(record)));
    }
  }
  directory_.emplace(options_.rank, std::move(records));
  std::vector<int> all(options_.size);
  std::iota(all.begin(), all.end(), 0);
  topology_ = directory_->topology(all);
  policy_ = WaitPolicy::for_ranks_on_host(directory_->ranks_on_machine());
  return Status::ok();
}

Status Fabric::Impl::start(Fd local_listener, std::vector<Fd> listeners) {
  watch_ = std::make_unique<PeerWatch>(options_.rank, options_.size, options_.heartbeat_timeout,
                                       *poller_, health_);
  waker_ = std::make_unique<SocketWaker>(*poller_);
  PeerAcceptor::Options options;
  options.rank = options_.rank;
  options.size = options_.size;
  options.round = options_.round;
  options.tls = options_.tls;
  peer_acceptor_ = std::make_unique<PeerAcceptor>(
      std::move(options), secret_, *poller_, [this](const Hello& hello, AuthenticatedStream peer) {
        return on_peer(hello, std::move(peer));
      });
  HVD_TRY(peer_acceptor_->listen(std::move(local_listener),
                                 fmt::format("rank {}, socket for its own host", options_.rank)));
  for (Fd& listener : listeners) {
    HVD_TRY_ASSIGN(const Endpoint endpoint, local_endpoint(listener));
    listening_on_.push_back(endpoint.to_string());
    HVD_TRY(peer_acceptor_->listen(
        std::move(listener), fmt::format("rank {}, {}", options_.rank, endpoint.to_string())));
  }
  HVD_TRY_ASSIGN(thread_, try_start_thread("hvd-net", [this] { run(); }));
  return Status::ok();
}

// On the caller's thread, while hvd-net of every rank accepts connections.
Status Fabric::Impl::connect_watches(Deadline deadline) {
  for (const int peer : watch_targets(options_.rank, options_.size)) {
    auto opened = open(peer, Hello::Purpose::kWatch, 0, deadline);
    if (!opened.is_ok()) {
      if (health_.failed()) return health_.status();
      const Status& why = opened.status();
      // Other ranks connect to this rank and would wait for it. fail() sends them the failure.
      health_.fail(why.code() == StatusCode::kPeerLost || why.code() == StatusCode::kUnavailable ||
                           why.code() == StatusCode::kIo
                       ? peer_lost(peer, why.message())
                       : why.with_context(fmt::format("rank {}", peer)));
      return health_.status();
    }
    HVD_TRY(watch_->add(peer, /*outgoing=*/true,
                        Channel(std::move(opened).value(), kWatchMessageLimit),
                        (*directory_)[peer].name(), watchable_pid(peer)));
  }
  const Status complete = watch_->wait_complete(deadline);
  if (!complete.is_ok()) health_.fail(complete);
  return health_.status();
}

}  // namespace hvd
