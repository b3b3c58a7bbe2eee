// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <deque>
#include <set>
#include <unordered_map>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "net/acceptor.h"
#include "net/poller.h"
#include "net/rendezvous.h"
#include "net/rendezvous_table.h"
#include "net/socket.h"

namespace hvd {
namespace {

// Tokens in the poller: a block of 2^32 tokens for the acceptor of each address, then one token for
// each client.
constexpr uint64_t kAcceptorTokens = uint64_t{1} << 32;
constexpr uint64_t kFirstClient = uint64_t{1} << 62;

// The ports of all servers of this process. Never destroyed: a server may end with the process.
struct Ports {
  Mutex mutex;
  std::multiset<uint16_t> served HVD_GUARDED_BY(mutex);
};
Ports& ports() {
  static auto* const all = new Ports;
  return *all;
}

}  // namespace

// The state of the thread `hvd-rendezvous`. Other threads call listen() before the thread starts,
// and stop().
class RendezvousServer::Loop {
 public:
  Loop(std::unique_ptr<Poller> poller, const RendezvousLimits& limits)
      : poller_(std::move(poller)),
        table_(limits,
               [this](uint64_t client, const ByteBuffer& answer) { queue(client, answer); }) {}

  Status listen(Fd listener, const Secret& secret, const RendezvousServerOptions& options) {
    AcceptorOptions accepting;
    accepting.name = "rendezvous server";
    accepting.tls = options.tls;
    accepting.handshake_timeout = options.handshake_timeout;
    accepting.max_pending = options.max_unauthenticated;
    HVD_TRY_ASSIGN(acceptors_.emplace_back(),
                   Acceptor::create(std::move(listener), secret, accepting, *poller_,
                                    kAcceptorTokens * (acceptors_.size() + 1),
                                    [this](AuthenticatedStream peer) { admit(std::move(peer)); }));
    return Status::ok();
  }

  // The body of the thread. If it ends early, it closes all connections, so that clients fail at
  // once.
  void run() noexcept {
    try {
      run_until_stopped();
    } catch (...) {
      HVD_LOG(kError, "rendezvous server: no memory is left; it ends here");
    }
    clients_.clear();
    acceptors_.clear();
  }

  void run_until_stopped() {
    std::vector<PollEvent> events;
    while (!stopping_.load(std::memory_order_acquire)) {
      const Status waited = poller_->wait(events, next_deadline());
      if (!waited.is_ok()) {
        HVD_LOG(kError, "rendezvous server: {}; it ends here", waited.message());
        return;
      }
      for (const PollEvent& event : events) {
        if (event.token < kFirstClient) {
          acceptors_[event.token / kAcceptorTokens - 1]->on_event(event);
        } else {
          ready_.push_back(event.token);
        }
      }
      serve_ready();
      for (const auto& acceptor : acceptors_) acceptor->expire();
    }
  }

  void stop() {
    stopping_.store(true, std::memory_order_release);
    poller_->wake();
  }

 private:
  struct Client {
    Channel channel;
    uint32_t polled_for = kReadable;
  };

  Deadline next_deadline() const {
    Deadline next = Deadline::never();
    for (const auto& acceptor : acceptors_) next = earlier(next, acceptor->next_deadline());
    return next;
  }

  void admit(AuthenticatedStream peer) {
    const uint64_t id = next_client_++;
    const int fd = peer.stream->fd();
    const Status added = poller_->add(fd, kReadable, id);
    if (!added.is_ok()) {
      HVD_LOG(kWarning, "rendezvous server: {}: {}", peer.peer.to_string(), added.message());
      return;
    }
    clients_.emplace(id, Client{Channel(std::move(peer))});
    // TLS may have read the first request together with the end of the handshake: the poller does
    // not see such bytes.
    ready_.push_back(id);
  }

  // `id` may be another client than the one that is served now: a request of one client can end the
  // waits of other clients.
  void queue(uint64_t id, const ByteBuffer& answer) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) return;
    // Fails only on a channel that has failed already; serve() then returns the same failure.
    (void)client->second.channel.queue_send(answer);
    ready_.push_back(id);
  }

  void serve_ready() {
    while (!ready_.empty()) {
      const uint64_t id = ready_.front();
      ready_.pop_front();
      const auto client = clients_.find(id);
      if (client == clients_.end()) continue;  // the event is older than the close
      const Status served = serve(id, client->second);
      if (!served.is_ok()) drop(id, served);
    }
  }

  Status serve(uint64_t id, Client& client) {
    Channel& channel = client.channel;
    HVD_TRY(channel.flush_some());
    // Do not read further requests before the client has read its answer. So the server holds at
    // most one answer per client.
    while (!channel.wants_write()) {
      HVD_TRY_ASSIGN(const std::optional<ByteBuffer> request, channel.try_recv());
      if (!request.has_value()) break;
      HVD_TRY(table_.handle(id, *request));
      HVD_TRY(channel.flush_some());
    }
    const uint32_t wanted = channel.wants_write() ? kWritable : kReadable;
    if (wanted == client.polled_for) return Status::ok();
    client.polled_for = wanted;
    return poller_->modify(channel.fd(), wanted, id);
  }

  void drop(uint64_t id, const Status& why) {
    const auto client = clients_.find(id);
    const std::string peer = client->second.channel.peer().to_string();
    if (why.code() == StatusCode::kPeerLost) {
      HVD_LOG(kDebug, "rendezvous server: {} is gone: {}", peer, why.message());
    } else {
      HVD_LOG(kWarning, "rendezvous server: closed {}: {}", peer, why.message());
    }
    poller_->remove(client->second.channel.fd());
    table_.forget(id);
    clients_.erase(client);
  }

  const std::unique_ptr<Poller> poller_;
  std::atomic<bool> stopping_{false};

  // Used by hvd-rendezvous only.
  RendezvousTable table_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::unordered_map<uint64_t, Client> clients_;
  std::deque<uint64_t> ready_;  // clients to serve
  uint64_t next_client_ = kFirstClient;
};

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::start(
    const Secret& secret, const RendezvousServerOptions& options) {
  HVD_TRY_ASSIGN(std::unique_ptr<Poller> poller, Poller::create());
  auto loop = std::make_unique<Loop>(std::move(poller), options.limits);
  std::vector<Endpoint> endpoints = {options.bind};
  endpoints.insert(endpoints.end(), options.more.begin(), options.more.end());
  for (Endpoint& endpoint : endpoints) {
    auto listening = listen_on(endpoint);
    if (!listening.is_ok()) return listening.status().with_context("rendezvous server");
    HVD_TRY_ASSIGN(endpoint, local_endpoint(*listening));
    HVD_TRY(loop->listen(std::move(*listening), secret, options));
  }
  return std::unique_ptr<RendezvousServer>(
      new RendezvousServer(std::move(endpoints), std::move(loop)));
}

RendezvousServer::RendezvousServer(std::vector<Endpoint> endpoints, std::unique_ptr<Loop> loop)
    : endpoints_(std::move(endpoints)),
      loop_(std::move(loop)),
      thread_(start_thread("hvd-rendezvous", [this] { loop_->run(); })) {
  Ports& all = ports();
  MutexLock lock(all.mutex);
  for (const Endpoint& each : endpoints_) all.served.insert(each.port());
}

RendezvousServer::~RendezvousServer() { stop(); }

void RendezvousServer::stop() {
  if (!thread_.joinable()) return;
  if (fork_generation_.in_child()) return thread_.detach();  // the child does not have the thread
  loop_->stop();
  thread_.join();
  Ports& all = ports();
  MutexLock lock(all.mutex);
  for (const Endpoint& each : endpoints_) all.served.extract(each.port());
}

bool RendezvousServer::has_port(uint16_t port) {
  Ports& all = ports();
  MutexLock lock(all.mutex);
  return all.served.contains(port);
}

}  // namespace hvd
