// SPDX-License-Identifier: Apache-2.0
#include "net/acceptor.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/negotiation.h"
#include "net/secret.h"
#include "net/socket.h"

namespace hvd {
namespace {

// Without a free descriptor, the listener tries again after this time.
constexpr std::chrono::milliseconds kRetryAccept{100};
constexpr std::chrono::seconds kLogInterval{1};
// Connections accepted per call: a flood must not keep the owner's thread from its other work.
constexpr int kAcceptsPerEvent = 64;

// Not std::random_device: with it the wheel would need glibc 2.36 (arc4random).
uint32_t random_seed() {
  uint32_t seed = 0;
  fill_random(std::as_writable_bytes(std::span(&seed, 1)));
  return seed;
}

}  // namespace

// Log lines about refused connections, at most one per interval, so that a flood of connections
// does not flood the log. Lines that were left out are counted, and the count is logged.
class Acceptor::Complaints {
 public:
  explicit Complaints(std::string name) : name_(std::move(name)) {}

  void add(std::string_view text) {
    if (!next_.expired()) {
      ++left_out_;
      return;
    }
    tell_left_out();
    HVD_LOG(kWarning, "{}: {}", name_, text);
    next_ = Deadline::after(kLogInterval);
  }

  void tell_left_out() {
    if (left_out_ == 0 || !next_.expired()) return;
    HVD_LOG(kWarning, "{}: {} more connections were closed in the last second", name_, left_out_);
    left_out_ = 0;
  }

  Deadline next_deadline() const { return left_out_ > 0 ? next_ : Deadline::never(); }

 private:
  const std::string name_;
  size_t left_out_ = 0;
  Deadline next_ = Deadline::at(Deadline::Clock::time_point::min());
};

// A peer whose handshake is not done.
struct Acceptor::Pending {
  Negotiation negotiation;
  Endpoint peer;
  Deadline deadline;
  uint32_t polled_for;
};

Acceptor::Acceptor(Fd listener, const Secret& secret, AcceptorOptions options, Poller& poller,
                   uint64_t token_base, OnAccepted on_accepted)
    : listener_(std::move(listener)),
      secret_(secret),
      options_(std::move(options)),
      random_(random_seed()),
      poller_(poller),
      token_base_(token_base),
      on_accepted_(std::move(on_accepted)),
      complaints_(std::make_unique<Complaints>(options_.name)) {}

Result<std::unique_ptr<Acceptor>> Acceptor::create(Fd listener, const Secret& secret,
                                                   AcceptorOptions options, Poller& poller,
                                                   uint64_t token_base, OnAccepted on_accepted) {
  HVD_CHECK((token_base & 0xffffffff) == 0 && options.max_pending > 0);
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(listener), secret, std::move(options),
                                                  poller, token_base, std::move(on_accepted)));
  HVD_TRY(poller.add(acceptor->listener_.get(), kReadable, token_base));
  return acceptor;
}

Acceptor::~Acceptor() {
  poller_.remove(listener_.get());
  for (const auto& [id, pending] : pending_) poller_.remove(pending->negotiation.fd());
}

void Acceptor::on_event(const PollEvent& event) {
  const auto id = static_cast<uint32_t>(event.token);
  if (id == 0) {
    accept_some();
  } else {
    advance(id);
  }
}

void Acceptor::accept_some() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    Result<Fd> accepted = accept_from(listener_);
    if (accepted.status().code() == StatusCode::kUnavailable && !pending_.empty()) {
      refuse(choose_victim(), accepted.status());
      accepted = accept_from(listener_);
    }
    if (!accepted.is_ok()) return pause_accepting(accepted.status());
    if (!accepted->valid()) return;
    admit(std::move(*accepted));
  }
}

void Acceptor::admit(Fd socket) {
  const Result<Endpoint> peer = peer_endpoint(socket);
  if (!peer.is_ok()) return;  // gone already
  const uint32_t id = next_id_;
  next_id_ = next_id_ == UINT32_MAX ? 1 : next_id_ + 1;
  const int fd = socket.get();
  const Status added = poller_.add(fd, kReadable, token_base_ | id);
  if (!added.is_ok()) return complaints_->add(peer->to_string() + ": " + added.message());
  pending_.emplace(id, std::make_unique<Pending>(
                           Pending{Negotiation::as_server(std::move(socket), secret_, options_.tls),
                                   *peer, Deadline::after(options_.handshake_timeout), kReadable}));
  // Read first what the peer has sent: the hello of an honest client arrives with its connection,
  // and gives that client more progress than a silent connection before one of them is closed.
  advance(id);
  if (pending_.size() > options_.max_pending) {
    refuse(choose_victim(),
           unavailable("closed to make room: more than " + std::to_string(options_.max_pending) +
                       " connections have not authenticated themselves"));
  }
}

uint32_t Acceptor::choose_victim() {
  std::vector<uint32_t> least;
  auto progress = Negotiation::Progress::kProof;
  for (const auto& [id, pending] : pending_) {
    const Negotiation::Progress reached = pending->negotiation.progress();
    if (reached < progress) least.clear();
    progress = std::min(progress, reached);
    if (reached == progress) least.push_back(id);
  }
  const size_t count = least.size();
  return least[options_.choose ? options_.choose(count)
                               : std::uniform_int_distribution<size_t>(0, count - 1)(random_)];
}

void Acceptor::advance(uint32_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;  // the event is older than the close
  Pending& pending = *found->second;
  const Result<uint32_t> outcome = pending.negotiation.advance();
  if (!outcome.is_ok()) return refuse(id, outcome.status());
  if (*outcome == 0) {
    poller_.remove(pending.negotiation.fd());
    AuthenticatedStream stream = pending.negotiation.take(pending.peer);
    pending_.erase(found);
    return on_accepted_(std::move(stream));
  }
  if (*outcome != pending.polled_for) {
    pending.polled_for = *outcome;
    const Status changed = poller_.modify(pending.negotiation.fd(), *outcome, token_base_ | id);
    if (!changed.is_ok()) refuse(id, changed);
  }
}

void Acceptor::refuse(uint32_t id, const Status& why) {
  const auto found = pending_.find(id);
  const Pending& pending = *found->second;
  const std::string peer = peer_name(pending.negotiation.fd(), pending.peer);
  // Not a failure: a client tries all addresses of a host at once, keeps the first connection that
  // is established, and closes the other connections without sending anything.
  if (why.code() == StatusCode::kPeerLost && !pending.negotiation.has_heard()) {
    HVD_LOG(kDebug, "{}: {}: {}", options_.name, peer, why.message());
  } else {
    complaints_->add("refused " + peer + ": " + why.message());
  }
  poller_.remove(pending.negotiation.fd());
  pending_.erase(found);
}

void Acceptor::pause_accepting(const Status& why) {
  // The connection that waits in the queue keeps the listener readable: polling it now would spin.
  complaints_->add("cannot accept connections: " + why.message());
  poller_.remove(listener_.get());
  resume_at_ = Deadline::after(kRetryAccept);
}

Deadline Acceptor::next_deadline() const {
  const Deadline oldest = pending_.empty() ? Deadline::never() : pending_.begin()->second->deadline;
  return earlier(earlier(oldest, resume_at_), complaints_->next_deadline());
}

void Acceptor::expire() {
  while (!pending_.empty() && pending_.begin()->second->deadline.expired()) {
    refuse(pending_.begin()->first, timeout_error("did not authenticate itself in time"));
  }
  if (resume_at_.expired()) {
    resume_at_ = Deadline::never();
    const Status added = poller_.add(listener_.get(), kReadable, token_base_);
    if (!added.is_ok()) resume_at_ = Deadline::after(kRetryAccept);
  }
  complaints_->tell_left_out();
}

}  // namespace hvd
