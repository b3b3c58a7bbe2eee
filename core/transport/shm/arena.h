// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one host share, and the marks by which they hand it to each other.
//
// Work goes in turns: turn t is the t-th chunk that the group has ever processed, counted alike on
// every rank because all ranks run the same collectives in the same order. In each turn a rank has
// one slot, and the slots of the last kSlots turns exist at once. A rank announces what it has done
// by raising one of its two marks to t; peers wait for marks. Nothing else synchronises:
//
//   kFilled   the rank's slot of turn t holds its input (or stays empty: it has nothing to give),
//             and it no longer touches any slot of turn t - 3 or earlier
//   kReduced  the rank has put its share of the results of turn t where its peers read it
//
// Every rank raises kFilled in every turn. Therefore a slot may be written again once all ranks
// have raised kFilled two turns ago, which is what claim() waits for. The pipeline fill(t+1),
// reduce(t), drain(t-1) has always seen that already, so that claim() costs it one comparison.
//
// One caller at a time per rank, as for Transport. A failure is final, as there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/fork_generation.h"
#include "base/status.h"
#include "transport/health.h"
#include "transport/shm/shared_word.h"
#include "transport/waiting.h"

namespace hvd {

struct Lifeline;
struct PublishedFailure;
class LifelineHolder;

enum class ArenaStage { kFilled = 0, kReduced = 1 };

class Arena {
 public:
  static constexpr int kSlots = 5;
  static constexpr int kStages = 2;
  static constexpr int kMostRanks = 512;  // on one host

  // How much memory an arena for `ranks` takes, and how much of it one slot has.
  static size_t bytes_needed(int ranks);
  static size_t slot_bytes_for(int ranks);
  // Makes the slots of the host's `rank`-th rank present. Before there is an arena, so that all
  // ranks of the host can agree to do without one: kUnavailable when there is no room.
  static Status populate_slots(Bytes memory, int rank, int ranks);

  // `memory` is zeroed, shared by all `job_ranks.size()` ranks and outlives the arena. `job_ranks`
  // are the ranks in the communicator, for messages. The lifelines's thread has to be running.
  // Returns before the others have come.
  Arena(Bytes memory, int rank, std::vector<int> job_ranks, LifelineHolder& holder, Health& health);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Collective: waits for everybody, whose slots are populated, and maps with few ranks all of them
  // into this process's page table.
  Status open(Deadline deadline);

  // Place among the ranks of this host, which is not the rank in the communicator.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(job_ranks_.size()); }
  size_t slot_bytes() const { return slot_bytes_; }
  // 64-byte aligned.
  std::byte* slot(int rank, uint64_t turn) const {
    return slots_ + (static_cast<size_t>(rank) * kSlots + turn % kSlots) * slot_bytes_;
  }

  // Starts `count` more turns and returns the number of the first.
  uint64_t begin_turns(uint64_t count) {
    const uint64_t first = next_turn_;
    next_turn_ += count;
    return first;
  }

  // Waits until this rank's slot of `turn` may be written.
  Status claim(uint64_t turn, Deadline deadline) {
    if (turn < 2 || all_filled_ >= turn - 2) return Status::ok();
    return wait_all(ArenaStage::kFilled, turn - 2, deadline);
  }

  // Announces that this rank has done `stage` for all turns up to `turn`.
  void raise(ArenaStage stage, uint64_t turn) { word(rank_, stage).raise(turn); }
  // Waits until `peer` has raised `stage` to `turn`. kPeerLost when a rank dies meanwhile.
  Status wait(int peer, ArenaStage stage, uint64_t turn, Deadline deadline) {
    if (step_hook_) HVD_TRY(step_hook_());
    if (word(peer, stage).load() >= turn) return Status::ok();
    return wait_slowly(peer, stage, turn, deadline);
  }
  // Waits for every other rank.
  Status wait_all(ArenaStage stage, uint64_t turn, Deadline deadline);

  // For tests: called before each wait, which fails if it does.
  void set_step_hook(std::function<Status()> hook) { step_hook_ = std::move(hook); }

  // Ok, or the reason why the ranks of this host can no longer work together: looks at Health, at
  // the failure another rank has published here, and at every peer's lifeline. A peer that has left
  // in peace is no reason: only who still waits for it is disappointed.
  Status check();
  bool has_left(int peer) const;

 private:
  struct alignas(64) ProgressLine {
    SharedWord words[kStages];
  };

  SharedWord& word(int rank, ArenaStage stage) const {
    return progress_lines_[rank].words[static_cast<int>(stage)];
  }
  Status wait_slowly(int peer, ArenaStage stage, uint64_t turn, Deadline deadline);
  Status check_peer(int peer);
  Status check_published();
  Status fail(const Status& failure);
  // Lets the other ranks of the host know of a failure; the first one is kept. Allocates nothing.
  void publish_failure(const Status& failure) noexcept;

  const ForkGeneration fork_generation_;
  const int rank_;
  const std::vector<int> job_ranks_;
  const size_t slot_bytes_;
  const WaitPolicy policy_;
  // In the shared memory, in this order.
  PublishedFailure* const failure_;
  ProgressLine* const progress_lines_;
  Lifeline* const lifelines_;
  std::byte* const slots_;
  LifelineHolder& holder_;
  Health& health_;
  std::unique_ptr<Health::Listener> listener_;  // publishes failures
  std::function<Status()> step_hook_;
  uint64_t next_turn_ = 1;   // progress words start at 0, "nothing done yet"
  uint64_t all_filled_ = 0;  // every rank is known to have raised kFilled to this
};

}  // namespace hvd
