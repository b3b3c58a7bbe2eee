// SPDX-License-Identifier: Apache-2.0
#include "transport/mesh.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "transport/progress_limit.h"

namespace hvd {
namespace {

// Bytes of one read or write: large enough to make system calls cheap, small enough to stay in the
// cache until it is reduced, and small enough that neither direction starves the other.
constexpr size_t kSegment = 256 << 10;
constexpr size_t kAlignment = 64;  // the largest `unit` that recv_pieces promises

// A receiver that expects at least this many more bytes from a socket sleeps instead of spinning:
// the kernel collects bytes meanwhile, so that one wake-up serves many of them. A ring in shared
// memory holds too few bytes for that, so there the receiver spins as usual.
constexpr size_t kLarge = 64 << 10;
constexpr WaitPolicy kLargePolicy{.pauses = 10, .yield_for = std::chrono::microseconds(0)};
// If the scratch holds at least this many bytes and no more have arrived, the consumer gets them.
// The mesh does not wait for a full segment then.
constexpr size_t kWorthConsuming = 64 << 10;

// look() reads the clock and the lifelines, which costs more than a poll of the link.
constexpr int kPollsPerLook = 64;
// A thread cannot sleep on sockets and on shared memory together. When it needs both, it sleeps on
// one and checks the other after this time.
constexpr std::chrono::milliseconds kShortSleep{1};

bool aligned(const void* address, size_t unit) {
  return !std::has_single_bit(unit) || reinterpret_cast<uintptr_t>(address) % unit == 0;
}

}  // namespace

struct alignas(kAlignment) Mesh::Scratch {
  std::array<std::byte, kSegment> bytes;
};

struct Mesh::Wait {
  Wait(const Mesh& mesh, int peer, size_t still_to_come, Deadline until, bool over_socket)
      : from(peer),
        to_come(still_to_come),
        limit(until, mesh.health_),
        policy(mesh.options_.policy),
        by_socket(over_socket) {
    restart(to_come);
  }
  void restart(size_t still_to_come) {
    to_come = still_to_come;
    backoff.emplace(by_socket && to_come >= kLarge ? kLargePolicy : policy);
  }

  const int from;  // -1: the wait is for the pending sends only
  size_t to_come;
  ProgressLimit limit;
  const WaitPolicy& policy;
  const bool by_socket;
  bool peer_has_left = false;
  std::optional<Backoff> backoff;
  int polls = 0;
};

Mesh::~Mesh() = default;

Mesh::Mesh(int rank, Topology topology, MeshOptions options, Health& health,
           std::vector<std::unique_ptr<LinkProvider>> providers)
    : Transport(rank, std::move(topology)),
      options_(std::move(options)),
      health_(health),
      providers_(std::move(providers)),
      peers_(size()) {
  HVD_CHECK(static_cast<int>(options_.job_ranks.size()) == size());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    const auto found = std::find_if(providers_.begin(), providers_.end(),
                                    [peer](const auto& each) { return each->reaches(peer); });
    HVD_CHECK(found != providers_.end());
    peers_[peer].provider = found->get();
  }
  for (const auto& provider : providers_) {
    take_arrivals(*provider);
    if (arena_ == nullptr) arena_ = provider->arena();
  }
}

Status Mesh::send(int to, ConstBytes out, Deadline deadline) {
  HVD_TRY(check(to));
  if (out.empty()) return Status::ok();
  Peer& peer = peers_[to];
  if (peer.out == nullptr) HVD_TRY(connect(to, deadline));
  if (!peer.pending.empty()) {
    // The next receive or flush writes it. If send() wrote here too, a ring algorithm would write
    // two segments for each segment that it reads, until the TCP windows close. This costs 5 to 10
    // percentage points of bandwidth at 10 Gbit/s.
    peer.pending.push_back(out);
    return Status::ok();
  }
  const auto written = peer.out->write_some(out.first(std::min(out.size(), kSegment)));
  if (!written.is_ok()) return lose(to, written.status());
  if (*written == out.size()) return Status::ok();
  peer.pending.push_back(out.subspan(*written));
  busy_.push_back(to);
  return Status::ok();
}

Status Mesh::recv(int from, Bytes in, Deadline deadline) {
  HVD_TRY(check(from));
  return fill(from, in, in.size(), deadline);
}

Status Mesh::recv_pieces(int from, size_t size, size_t unit, Consume consume, Deadline deadline) {
  HVD_TRY(check(from));
  HVD_CHECK(unit > 0 && unit <= kAlignment && size % unit == 0);
  if (size == 0) return Status::ok();
  if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
  const InLink* in = peers_[from].in;
  if (in != nullptr && in->can_peek()) return pieces_in_place(from, size, unit, consume, deadline);
  return pieces_by_copy(from, size, unit, consume, deadline);
}

Status Mesh::flush(Deadline deadline) {
  if (health_.failed()) return failure();
  Wait wait(*this, /*peer=*/-1, 0, deadline, /*over_socket=*/true);
  while (!busy_.empty()) {
    HVD_TRY(progress());
    if (!busy_.empty()) HVD_TRY(pause(wait));
  }
  return Status::ok();
}

void Mesh::abort(const Status& reason) {
  if (!health_.failed()) aborted_ = true;
  health_.fail(reason);
}

Status Mesh::check(int peer) const {
  HVD_CHECK(peer >= 0 && peer < size() && peer != rank());
  return health_.failed() ? failure() : Status::ok();
}

Status Mesh::failure() const {
  const Status reason = health_.status();
  return aborted_ ? aborted(reason.message()) : reason;
}

Status Mesh::lose(int peer, const Status& why) {
  // A rank that fails because of another rank closes its links. This rank may see the closed link
  // before it receives the message about the failure, which names the rank that was lost. So it
  // waits for that message. If bytes were changed, only this link is at fault, and no wait is
  // needed.
  if (why.code() != StatusCode::kUnauthenticated) {
    (void)health_.wait_for_failure(Deadline::after(options_.grace));
  }
  health_.fail(peer_lost(options_.job_ranks[peer], why.message()));
  return failure();
}

Status Mesh::connect(int to, Deadline deadline) {
  const auto link = peers_[to].provider->connect(to, deadline.renewed());
  if (!link.is_ok()) {
    if (health_.failed()) return failure();
    if (link.status().code() != StatusCode::kTimeout) return lose(to, link.status());
    health_.fail(link.status().with_context(fmt::format("rank {}", options_.job_ranks[to])));
    return failure();
  }
  peers_[to].out = *link;
  return Status::ok();
}

void Mesh::take_arrivals(LinkProvider& provider) {
  for (const LinkProvider::Arrival& arrival : provider.arrivals()) {
    // A provider may also have links to peers whose links an earlier provider makes.
    Peer& peer = peers_[arrival.from];
    if (peer.provider == &provider) peer.in = arrival.link;
  }
}

Result<size_t> Mesh::read_some(int from, Bytes in) {
  Peer& peer = peers_[from];
  if (peer.in == nullptr) {
    take_arrivals(*peer.provider);
    if (peer.in == nullptr) return size_t{0};
  }
  auto got = peer.in->read_some(in.first(std::min(in.size(), kSegment)));
  if (!got.is_ok()) return lose(from, got.status());
  if (*got > 0) note_progress();
  return got;
}

bool Mesh::reads_socket(int from) const {
  const InLink* in = peers_[from].in;
  return in == nullptr || in->descriptor() >= 0;
}

Status Mesh::fill(int from, Bytes in, size_t still_to_come, Deadline deadline) {
  Wait wait(*this, from, still_to_come, deadline, reads_socket(from));
  while (!in.empty()) {
    HVD_TRY_ASSIGN(const size_t got, read_some(from, in));
    in = in.subspan(got);
    if (!busy_.empty()) HVD_TRY(progress());
    if (got > 0) {
      wait.restart(wait.to_come - got);
    } else {
      HVD_TRY(pause(wait));
    }
  }
  return Status::ok();
}

Status Mesh::pieces_by_copy(int from, size_t size, size_t unit, Consume consume,
                            Deadline deadline) {
  std::byte* const scratch = scratch_->bytes.data();
  const size_t capacity = round_down(kSegment, unit);
  Wait wait(*this, from, size, deadline, reads_socket(from));
  size_t held = 0;  // bytes in the scratch
  while (size > 0) {
    const size_t most = std::min(size, capacity);
    HVD_TRY_ASSIGN(const size_t got, read_some(from, {scratch + held, most - held}));
    held += got;
    if (!busy_.empty()) HVD_TRY(progress());
    if (got > 0) wait.restart(size - held);
    if (held < most && (got > 0 || held < kWorthConsuming)) {
      if (got == 0) HVD_TRY(pause(wait));
      continue;
    }
    const size_t whole = round_down(held, unit);
    HVD_TRY(hand_over({scratch, whole}, from, consume));
    size -= whole;
    held -= whole;
    std::copy_n(scratch + whole, held, scratch);
  }
  return Status::ok();
}

Status Mesh::pieces_in_place(int from, size_t size, size_t unit, Consume consume,
                             Deadline deadline) {
  InLink& in = *peers_[from].in;
  Wait wait(*this, from, size, deadline, reads_socket(from));
  while (size > 0) {
    const auto shown = in.peek();
    if (!shown.is_ok()) return lose(from, shown.status());
    if (!shown->empty() && (shown->size() < unit || !aligned(shown->data(), unit))) {
      // The ring buffer ends within a unit, or an earlier message had a length that is not a
      // multiple of the unit: copy through the scratch. The end of the ring buffer affects one
      // unit; a position that is not aligned affects the whole message.
      const size_t part = shown->size() < unit ? unit : size;
      HVD_TRY(pieces_by_copy(from, part, unit, consume, deadline));
      size -= part;
      continue;
    }
    const size_t whole = round_down(std::min({shown->size(), size, kSegment}), unit);
    if (whole > 0) {
      HVD_TRY(hand_over(shown->first(whole), from, consume));
      in.release(whole);
      note_progress();
      size -= whole;
      wait.restart(size);
    }
    if (!busy_.empty()) HVD_TRY(progress());
    if (whole == 0) HVD_TRY(pause(wait));
  }
  return Status::ok();
}

Status Mesh::hand_over(ConstBytes piece, int from, Consume consume) {
  Status consumed = consume(piece);
  if (consumed.is_ok() || health_.failed()) return consumed;
  // The rest of the message stays unread, so later bytes of this link could not be interpreted.
  health_.fail(consumed.with_context(
      fmt::format("consumer of bytes from rank {}", options_.job_ranks[from])));
  return failure();
}

Status Mesh::progress() {
  for (size_t i = 0; i < busy_.size();) {
    const int to = busy_[i];
    HVD_TRY(write_pending(to));
    if (i < busy_.size() && busy_[i] == to) ++i;
  }
  return Status::ok();
}

Status Mesh::write_pending(int to) {
  Peer& peer = peers_[to];
  for (size_t budget = kSegment; !peer.pending.empty();) {
    ConstBytes& front = peer.pending.front();
    const auto written = peer.out->write_some(front.first(std::min(front.size(), kSegment)));
    if (!written.is_ok()) return lose(to, written.status());
    if (*written > 0) note_progress();
    front = front.subspan(*written);
    if (front.empty()) peer.pending.pop_front();
    if (*written == 0 || *written >= budget) break;
    budget -= *written;
  }
  if (peer.pending.empty()) std::erase(busy_, to);
  return Status::ok();
}

Status Mesh::pause(Wait& wait) {
  if (++wait.polls % kPollsPerLook == 0) HVD_TRY(look(wait));
  if (!wait.backoff->pause()) return Status::ok();
  sleep(wait);
  return look(wait);
}

Status Mesh::look(Wait& wait) {
  if (health_.failed()) return failure();
  HVD_TRY(look_at_providers(wait));
  if (std::exchange(moved_, false)) wait.limit.restart();
  if (!wait.limit.expired()) return Status::ok();
  if (wait.from >= 0) {
    health_.fail(timeout_error(fmt::format("rank {} did not send in time: {} bytes are missing",
                                           options_.job_ranks[wait.from], wait.to_come)));
  } else {
    std::string peers;
    for (const int to : busy_) {
      peers += fmt::format("{}{}", peers.empty() ? "" : ", ", options_.job_ranks[to]);
    }
    health_.fail(timeout_error(fmt::format("rank {} did not receive in time", peers)));
  }
  return failure();
}

Status Mesh::look_at_providers(Wait& wait) {
  for (const auto& provider : providers_) {
    if (const Status whole = provider->check(); !whole.is_ok()) {
      health_.fail(whole);
      return failure();
    }
  }
  if (wait.from < 0) return Status::ok();
  // The last bytes of the peer may have arrived just before it left. So it is lost only if the next
  // look finds that it has left and the bytes are still missing.
  if (!peers_[wait.from].provider->has_left(wait.from)) return Status::ok();
  if (!std::exchange(wait.peer_has_left, true)) return Status::ok();
  return lose(wait.from, aborted("it left the job"));
}

void Mesh::sleep(const Wait& wait) {
  polled_.clear();
  Sleeper* unpolled = nullptr;  // a link without a descriptor
  size_t links = 0;
  const auto add = [&](Sleeper& link) {
    ++links;
    if (link.descriptor() >= 0) {
      polled_.push_back({link.descriptor(), link.events(), 0});
    } else {
      unpolled = &link;
    }
  };
  for (const int to : busy_) add(*peers_[to].out);
  if (wait.from >= 0) {
    // Added last: of several links without a descriptor, the thread sleeps on this one.
    if (InLink* in = peers_[wait.from].in; in != nullptr) {
      add(*in);
    } else {
      polled_.push_back({peers_[wait.from].provider->arrivals_descriptor(), POLLIN, 0});
    }
  }
  if (unpolled == nullptr) {
    ::poll(polled_.data(), polled_.size(), wait.limit.deadline().poll_milliseconds(kLongestSleep));
    return;
  }
  if (!polled_.empty() && ::poll(polled_.data(), polled_.size(), 0) > 0) return;
  unpolled->sleep(polled_.empty() && links == 1 ? kLongestSleep : kShortSleep);
}

}  // namespace hvd
