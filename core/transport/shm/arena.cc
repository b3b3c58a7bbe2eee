// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>

#include "transport/progress_limit.h"
#include "transport/shm/lifeline.h"
#include "transport/shm/segment.h"

namespace hvd {

// The first failure that a rank of the host has found, for ranks that cannot find it themselves.
// The rank that moves `state` from kNone to kBeingWritten writes the other fields, then sets
// kComplete with release order; readers load `state` with acquire order.
struct alignas(64) PublishedFailure {
  enum : uint32_t { kNone = 0, kBeingWritten = 1, kComplete = 2 };
  std::atomic<uint32_t> state;
  int32_t lost_rank;
  int32_t code;
  char text[500];
};

namespace {

constexpr size_t kPage = 4096;
// A poll reads one cache line, that of the progress word; a check also reads the health, the
// published failure and the lifeline of the peer.
constexpr int kPollsBetweenChecks = 64;

// Up to this many ranks, open() maps the pages of the peers. With more ranks a page is mapped when
// it is first used. If open() mapped all of them, every process would fill page tables for 20 MiB:
// 64 processes on two cores needed 0.9 seconds to connect, and 0.7 of these for the page tables.
constexpr int kMostToMap = 8;

struct Offsets {
  size_t progress_lines;
  size_t lifelines;
  size_t slots;
  size_t end;
};

Offsets offsets_for(int ranks) {
  const auto count = static_cast<size_t>(ranks);
  Offsets at{};
  at.progress_lines = sizeof(PublishedFailure);
  at.lifelines = at.progress_lines + count * 64;
  at.slots = round_up(at.lifelines + count * sizeof(Lifeline), kPage);
  at.end = at.slots + count * Arena::kSlots * Arena::slot_bytes_for(ranks);
  return at;
}

template <typename T>
T* at_offset(Bytes memory, size_t offset) {
  return reinterpret_cast<T*>(memory.data() + offset);
}

}  // namespace

// 256 KiB is the best chunk for two and for four ranks. From 17 ranks on the slots shrink, so that
// an arena stays around 20 MiB, which takes 20 ms to populate.
size_t Arena::slot_bytes_for(int ranks) {
  constexpr size_t kMost = 256 * 1024;
  constexpr size_t kLeast = 32 * 1024;
  return std::clamp(round_up(16 * kMost / static_cast<size_t>(ranks), kPage), kLeast, kMost);
}

size_t Arena::bytes_needed(int ranks) { return offsets_for(ranks).end; }

Arena::Arena(Bytes memory, int rank, std::vector<int> job_ranks, LifelineHolder& holder,
             Health& health)
    : rank_(rank),
      job_ranks_(std::move(job_ranks)),
      slot_bytes_(slot_bytes_for(size())),
      policy_(WaitPolicy::for_ranks_on_host(size())),
      failure_(at_offset<PublishedFailure>(memory, 0)),
      progress_lines_(at_offset<ProgressLine>(memory, offsets_for(size()).progress_lines)),
      lifelines_(at_offset<Lifeline>(memory, offsets_for(size()).lifelines)),
      slots_(at_offset<std::byte>(memory, offsets_for(size()).slots)),
      holder_(holder),
      health_(health) {
  HVD_CHECK(memory.size() >= bytes_needed(size()));
  static_assert(sizeof(ProgressLine) == 64);
  holder_.hold(lifelines_[rank_]);
  // A process that ends because of a failure elsewhere must not be reported as the lost process. So
  // it publishes the failure here before it ends, and the other ranks of the host read it here.
  listener_ = std::make_unique<Health::Listener>(health_, [this](const Status& failure) {
    if (!health_.left()) publish_failure(failure);
  });
}

Arena::~Arena() {
  if (fork_generation_.in_child()) {
    (void)listener_.release();  // its destructor takes a lock that may be held forever in the child
    return;
  }
  listener_.reset();
  holder_.release(lifelines_[rank_]);
}

Status Arena::populate_slots(Bytes memory, int rank, int ranks) {
  const size_t mine = kSlots * slot_bytes_for(ranks);
  return Segment::populate(
      memory.subspan(offsets_for(ranks).slots + static_cast<size_t>(rank) * mine, mine));
}

Status Arena::open(Deadline deadline) {
  const uint64_t turn = begin_turns(1);
  raise(ArenaStage::kFilled, turn);
  HVD_TRY(wait_all(ArenaStage::kFilled, turn, deadline));
  // The pages exist already; mapping them costs a seventh of allocating them. If it fails they are
  // mapped when they are first used.
  const size_t all = kSlots * slot_bytes_ * static_cast<size_t>(size());
  if (size() <= kMostToMap) (void)Segment::populate(Bytes(slots_, all));
  return Status::ok();
}

Status Arena::wait_all(ArenaStage stage, uint64_t turn, Deadline deadline) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) HVD_TRY(wait(peer, stage, turn, deadline));
  }
  if (stage == ArenaStage::kFilled) all_filled_ = std::max(all_filled_, turn);
  return Status::ok();
}

Status Arena::wait_slowly(int peer, ArenaStage stage, uint64_t turn, Deadline deadline) {
  SharedWord& awaited = word(peer, stage);
  Backoff backoff(policy_);
  ProgressLimit limit(deadline, health_);
  uint64_t before = 0;
  for (int polls = 1;; ++polls) {
    const uint64_t seen = awaited.load();
    if (seen >= turn) {
      health_.note_progress();
      return Status::ok();
    }
    if (polls % kPollsBetweenChecks == 0) HVD_TRY(check_peer(peer));
    if (!backoff.pause()) continue;
    HVD_TRY(check());
    // First has_left(), then the progress word: the peer may have raised the word just before it
    // left.
    if (has_left(peer) && awaited.load() < turn) {
      return fail(peer_lost(job_ranks_[peer], "it left the job"));
    }
    if (std::exchange(before, seen) != seen) limit.restart();  // the peer makes progress
    if (limit.expired()) {
      // The peer may have raised the word since the last load.
      if (awaited.load() >= turn) return Status::ok();
      return fail(
          timeout_error(fmt::format("rank {} timed out waiting for rank {} on the same host, which "
                                    "is alive but does not take "
                                    "part",
                                    job_ranks_[rank_], job_ranks_[peer])));
    }
    awaited.sleep(seen, std::min<std::chrono::microseconds>(
                            kLongestSleep, std::chrono::duration_cast<std::chrono::microseconds>(
                                               limit.deadline().remaining())));
  }
}

Status Arena::check_peer(int peer) {
  if (health_.failed()) return health_.status();
  HVD_TRY(check_published());
  if (lifelines_[peer].state() != Lifeline::State::kDied) return Status::ok();
  // Checked again: the peer may have published a failure after our first check, and then ended
  // because of that failure.
  HVD_TRY(check_published());
  return fail(peer_lost(job_ranks_[peer], "its process died"));
}

Status Arena::check_published() {
  if (failure_->state.load(std::memory_order_acquire) != PublishedFailure::kComplete) {
    return Status::ok();
  }
  const std::string text(failure_->text, strnlen(failure_->text, sizeof(failure_->text)));
  const auto code = static_cast<StatusCode>(failure_->code);
  return fail(code == StatusCode::kPeerLost && failure_->lost_rank >= 0
                  ? peer_lost(failure_->lost_rank, text)
                  : aborted(text));
}

bool Arena::has_left(int peer) const { return lifelines_[peer].state() == Lifeline::State::kLeft; }

Status Arena::check() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) HVD_TRY(check_peer(peer));
  }
  return Status::ok();
}

Status Arena::fail(const Status& failure) {
  health_.fail(failure);
  return health_.status();
}

void Arena::publish_failure(const Status& failure) noexcept {
  uint32_t none = PublishedFailure::kNone;
  if (!failure_->state.compare_exchange_strong(none, PublishedFailure::kBeingWritten)) return;
  const std::string_view text = reason_without_rank(failure);
  // The same result as seen_by_others(), which allocates.
  const bool broken = is_broken(failure);
  failure_->lost_rank = broken ? job_ranks_[rank_] : failure.lost_rank();
  failure_->code = static_cast<int32_t>(broken ? StatusCode::kPeerLost : failure.code());
  std::memcpy(failure_->text, text.data(), std::min(text.size(), sizeof(failure_->text) - 1));
  failure_->state.store(PublishedFailure::kComplete, std::memory_order_release);
}

}  // namespace hvd
