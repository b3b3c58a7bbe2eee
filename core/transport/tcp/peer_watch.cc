// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/peer_watch.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "net/fd.h"

namespace hvd {
namespace {

// First token of the watch. A channel has an even token, its process (pidfd) the next odd one.
constexpr uint64_t kTokens = uint64_t{1} << 61;

// A host that loses its power or its network closes no connection. After 5 s of silence the kernel
// sends three probes, 2 s apart; without an answer the connection counts as closed after 11 s.
void probe_when_silent(int socket) {
  const auto set = [socket](int level, int name, int value) {
    (void)::setsockopt(socket, level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Fd open_process(int pid) {
  return pid == 0 ? Fd() : Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

std::vector<int> watch_targets(int rank, int size) {
  std::vector<int> targets;
  for (int step = 1; step < size; step *= 2) targets.push_back((rank + step) % size);
  return targets;
}

std::vector<int> watch_sources(int rank, int size) {
  std::vector<int> sources;
  for (int step = 1; step < size; step *= 2) sources.push_back((rank - step + size) % size);
  return sources;
}

struct PeerWatch::Edge {
  int peer;
  bool outgoing;
  Channel channel;
  std::string name;
  Fd process;
  uint64_t token;
  uint32_t polled_for = 0;  // events; 0: not yet added to the poller
  bool closed = false;      // the peer has sent a goodbye, or is lost
  Deadline::Clock::time_point heard = Deadline::Clock::now();  // time of its last message
};

PeerWatch::PeerWatch(int rank, int size, std::chrono::milliseconds heartbeat_timeout,
                     Poller& poller, Health& health)
    : rank_(rank),
      size_(size),
      heartbeat_timeout_(heartbeat_timeout),
      poller_(poller),
      health_(health),
      next_token_(kTokens),
      missing_(watch_targets(rank, size).size() + watch_sources(rank, size).size()),
      next_beat_(Deadline::after(heartbeat_timeout / 4)),
      listener_(std::make_unique<Health::Listener>(
          health, [this](const Status& reason) { spread(reason); })) {}

PeerWatch::~PeerWatch() {
  listener_.reset();
  MutexLock lock(mutex_);
  for (const auto& edge : edges_) close(*edge);
}

Status PeerWatch::add(int peer, bool outgoing, Channel channel, const std::string& name, int pid) {
  probe_when_silent(channel.fd());
  MutexLock lock(mutex_);
  for (const auto& edge : edges_) {
    if (edge->peer == peer && edge->outgoing == outgoing) {
      return precondition(fmt::format("rank {} is connected already", peer));
    }
  }
  const auto expected = outgoing ? watch_targets(rank_, size_) : watch_sources(rank_, size_);
  if (std::find(expected.begin(), expected.end(), peer) == expected.end()) {
    return precondition(fmt::format("rank {} has no reason to watch rank {}", peer, rank_));
  }
  edges_.push_back(std::unique_ptr<Edge>(
      new Edge{peer, outgoing, std::move(channel), name, open_process(pid), next_token_}));
  next_token_ += 2;
  if (spread_.has_value()) send_to(*edges_.back(), *spread_);
  --missing_;
  changed_.notify_all();
  poller_.wake();
  return Status::ok();
}

Status PeerWatch::wait_complete(Deadline deadline) {
  MutexLock lock(mutex_);
  while (missing_ > 0 && !failed_) {
    if (changed_.wait(mutex_, deadline)) continue;
    std::string absent;
    for (const int source : watch_sources(rank_, size_)) {
      const bool here = std::any_of(edges_.begin(), edges_.end(), [&](const auto& edge) {
        return edge->peer == source && !edge->outgoing;
      });
      if (!here) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", source);
    }
    return timeout_error(fmt::format("rank {} has not connected in time", absent));
  }
  return Status::ok();
}

void PeerWatch::say_goodbye() {
  listener_.reset();  // without our mutex, which spread() takes
  MutexLock lock(mutex_);
  leaving_ = true;
  for (const auto& edge : edges_) send_to(*edge, {WatchMessage::Kind::kGoodbye, rank_});
}

void PeerWatch::spread(const Status& reason) {
  MutexLock lock(mutex_);
  failed_ = true;
  try {
    // A failure from another rank is sent unchanged, so that it keeps its origin.
    const bool passed_on =
        heard_.has_value() && failure_from(*heard_).message() == reason.message();
    spread_ = passed_on ? *heard_ : failure_message(rank_, seen_by_others(rank_, reason));
    // At once and on this thread: a failing process may end before another thread runs.
    for (const auto& edge : edges_) send_to(*edge, *spread_);
  } catch (...) {
    // There is no memory for a message. Closing our connections needs none, and peers then report
    // this rank as lost.
    for (const auto& edge : edges_) (void)::shutdown(edge->channel.fd(), SHUT_RDWR);
  }
  changed_.notify_all();
  poller_.wake();
}

void PeerWatch::send_to(Edge& edge, const WatchMessage& message) {
  if (edge.closed) return;
  // An error here means that the peer is gone; read() detects and reports that.
  if (edge.channel.queue_send(encode(message)).is_ok()) (void)edge.channel.flush_some();
}

bool PeerWatch::on_event(const PollEvent& event) {
  if (event.token < kTokens) return false;
  Status failure;
  {
    MutexLock lock(mutex_);
    const auto found = std::find_if(edges_.begin(), edges_.end(), [&](const auto& edge) {
      return edge->token == (event.token & ~uint64_t{1});
    });
    if (found == edges_.end() || (*found)->closed) return true;
    Edge& edge = **found;
    (void)edge.channel.flush_some();
    failure = read(edge);  // first: a goodbye may have arrived just before the process ended
    const bool ended = (event.token & 1) != 0;
    if (failure.is_ok() && ended && !edge.closed) {
      failure = peer_lost(edge.peer, edge.name + ": its process has ended");
    }
    if (ended) close(edge);
    if (leaving_) failure = Status::ok();
  }
  // Without our mutex: health_ calls spread(), which takes it.
  if (!failure.is_ok()) health_.fail(failure);
  return true;
}

Status PeerWatch::read(Edge& edge) {
  Status failure;
  while (!edge.closed) {
    const auto bytes = edge.channel.try_recv();
    if (bytes.is_ok() && !bytes->has_value()) break;
    const Result<WatchMessage> message =
        bytes.is_ok() ? decode_watch_message(**bytes, size_) : Result<WatchMessage>(bytes.status());
    if (!message.is_ok()) {
      close(edge);
      if (!failure.is_ok()) break;
      return peer_lost(edge.peer, edge.name + ": " + message.status().message());
    }
    edge.heard = Deadline::Clock::now();
    if (message->kind == WatchMessage::Kind::kAlive) {
      note_progress_elsewhere(*message);
    } else if (message->kind == WatchMessage::Kind::kGoodbye) {
      close(edge);
    } else if (message->kind == WatchMessage::Kind::kFailure && failure.is_ok()) {
      failure = failure_from(*message);
      if (!heard_.has_value()) heard_ = *message;
    }
  }
  return failure;
}

void PeerWatch::update() {
  Status failure;
  {
    MutexLock lock(mutex_);
    for (const auto& edge : edges_) {
      if (edge->closed) continue;
      const uint32_t wanted = edge->channel.wanted_events();
      if (wanted == edge->polled_for) continue;
      const bool known = std::exchange(edge->polled_for, wanted) != 0;
      if (known) {
        (void)poller_.modify(edge->channel.fd(), wanted, edge->token);
        continue;
      }
      (void)poller_.add(edge->channel.fd(), wanted, edge->token);
      if (edge->process.valid()) {
        (void)poller_.add(edge->process.get(), kReadable, edge->token + 1);
      }
      // Messages that arrived together with the greeting are already in the channel's buffer, where
      // the poller cannot see them.
      if (Status found = read(*edge); failure.is_ok()) failure = std::move(found);
    }
    if (leaving_) failure = Status::ok();
  }
  if (!failure.is_ok()) health_.fail(failure);
}

Deadline PeerWatch::next_beat() {
  MutexLock lock(mutex_);
  return failed_ || leaving_ ? Deadline::never() : next_beat_;
}

void PeerWatch::beat() {
  Status failure;
  {
    MutexLock lock(mutex_);
    if (failed_ || leaving_ || !next_beat_.expired()) return;
    const auto now = Deadline::Clock::now();
    // If this beat is late by more than a quarter of the timeout, this process did not run for
    // about half of the timeout: the machine slept, or the process was stopped. Messages of peers
    // may still arrive, and the peers may have been stopped too. So the silence of every peer is
    // measured from now on.
    const bool we_were_absent = now - next_beat_.when() > heartbeat_timeout_ / 4;
    next_beat_ = Deadline::at(now + heartbeat_timeout_ / 4);
    if (health_.take_progress()) moved_here_ = now;
    const WatchMessage alive = alive_message(now);
    for (const auto& edge : edges_) {
      if (edge->closed) continue;
      if (we_were_absent) edge->heard = now;
      if (failure.is_ok() && now - edge->heard >= heartbeat_timeout_) {
        failure = peer_lost(
            edge->peer,
            fmt::format("{}: frozen or unreachable: no sign of life for {:g} s "
                        "(HOROVOD_HEARTBEAT_TIMEOUT_SECONDS)",
                        edge->name, std::chrono::duration<double>(heartbeat_timeout_).count()));
      }
      // A peer that does not read gets no second message, so that the queue stays short.
      if (!edge->channel.wants_write()) send_to(*edge, alive);
    }
  }
  if (!failure.is_ok()) health_.fail(failure);
}

WatchMessage PeerWatch::alive_message(Deadline::Clock::time_point now) const {
  WatchMessage message{WatchMessage::Kind::kAlive, rank_};
  const auto moved = std::max(moved_here_, moved_elsewhere_);
  if (moved == Deadline::Clock::time_point()) return message;
  const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - moved).count();
  message.idle_ms =
      static_cast<uint32_t>(std::min<int64_t>(idle, int64_t{WatchMessage::kNeverMoved} - 1));
  return message;
}

void PeerWatch::note_progress_elsewhere(const WatchMessage& message) {
  if (message.idle_ms == WatchMessage::kNeverMoved) return;
  const auto moved = Deadline::Clock::now() - std::chrono::milliseconds(message.idle_ms);
  if (moved <= moved_elsewhere_) return;
  moved_elsewhere_ = moved;
  health_.set_progress_elsewhere(moved);
}

void PeerWatch::close(Edge& edge) {
  if (edge.polled_for != 0 && !edge.closed) {
    poller_.remove(edge.channel.fd());
    if (edge.process.valid()) poller_.remove(edge.process.get());
  }
  edge.closed = true;
}

}  // namespace hvd
