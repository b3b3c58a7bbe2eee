// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one host share for collectives, and the progress words that synchronise
// them.
//
// Turns. A collective works in chunks; turn t is the t-th chunk since the arena was made. All ranks
// run the same collectives in the same order, so turn t is the same chunk on every rank.
//
// Slots. Each rank has kSlots = 5 slots; turn t uses slot t % 5 of every rank. A rank puts its
// input into its own slot; a result may be in a slot of any rank for the same turn:
//
//             turn      t-4   t-3   t-2   t-1    t
//   slots of rank 0    [   ] [   ] [   ] [   ] [   ]    turn t+1 uses the slot of turn t-4 again
//   slots of rank 1    [   ] [   ] [   ] [   ] [   ]
//
// Stages. A rank has two progress words, one for each stage below. It raises the word of a stage to
// t when it has finished that stage of turn t. Peers wait for these words; no other memory
// synchronises the ranks:
//
//   kFilled   the rank's slot of turn t holds its input, or the rank has no input for this turn;
//             and the rank does not access any slot of turn t-3 or earlier again
//   kReduced  the rank has put its share of the results of turn t where its peers read it
//
// A large allreduce is a pipeline of three steps. A rank does the steps of one row from left to
// right, then those of the next row:
//
//   fill t      reduce t-1   drain t-2     fill:   copy the input into the slot, raise kFilled
//   fill t+1    reduce t     drain t-1     reduce: wait for kFilled of all ranks, combine this
//   fill t+2    reduce t+1   drain t               rank's share, raise kReduced
//                                          drain:  wait for kReduced of all ranks, copy out
//
// Reuse. Turn t uses the slots of turn t-5 again. Every rank raises kFilled in every turn. Once all
// ranks have raised kFilled to t-2, no rank accesses a slot of turn t-5 again, so the slot of turn
// t is free. claim() waits for this. The pipeline has already waited for it in reduce(t-2), so
// claim() costs one comparison there.
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

// One caller at a time per rank, as for Transport. The memory, `holder` and `health` must outlive
// the arena. A failure is final: it fails `health`, and the other ranks of the host find it in the
// shared memory.
class Arena {
 public:
  static constexpr int kSlots = 5;  // the fewest for which claim() of the pipeline never waits
  static constexpr int kStages = 2;
  static constexpr int kMostRanks = 512;  // on one host

  // Bytes of an arena for `ranks` ranks, and bytes of one of its slots.
  static size_t bytes_needed(int ranks);
  static size_t slot_bytes_for(int ranks);
  // Allocates the pages of the slots of local rank `rank`. Called before the arena exists, so that
  // all ranks of the host can still agree to work without an arena. kUnavailable when there is no
  // room.
  static Status populate_slots(Bytes memory, int rank, int ranks);

  // `memory` is zeroed and shared by all `job_ranks.size()` ranks. `rank` is the local rank;
  // `job_ranks` are the ranks of the job by local rank, for messages. The thread of `holder` must
  // be running. Does not wait for the other ranks.
  Arena(Bytes memory, int rank, std::vector<int> job_ranks, LifelineHolder& holder, Health& health);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Collective: waits for all ranks of the host, whose slots are populated. With at most 8 ranks it
  // also maps all slots into the page table of this process.
  Status open(Deadline deadline);

  // Local rank: the position among the ranks of this host, not the rank in the communicator.
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

  // Reports to the peers that this rank has finished `stage` for all turns up to `turn`.
  void raise(ArenaStage stage, uint64_t turn) { word(rank_, stage).raise(turn); }
  // Waits until `peer` has raised `stage` to `turn`. kPeerLost when a rank dies meanwhile.
  Status wait(int peer, ArenaStage stage, uint64_t turn, Deadline deadline) {
    if (step_hook_) HVD_TRY(step_hook_());
    if (word(peer, stage).load() >= turn) return Status::ok();
    return wait_slowly(peer, stage, turn, deadline);
  }
  // Waits for every other rank.
  Status wait_all(ArenaStage stage, uint64_t turn, Deadline deadline);

  // For tests: called before each wait. If the hook fails, the wait fails.
  void set_step_hook(std::function<Status()> hook) { step_hook_ = std::move(hook); }

  // Ok, or the reason why the ranks of this host can no longer work together. Checks Health, the
  // failure that another rank has published here, and every peer's lifeline, without a system call.
  // A peer that left cleanly is not a failure; only a rank that still waits for it gets an error.
  Status check();
  bool has_left(int peer) const;

 private:
  // The progress words of one rank, on a cache line that only this rank writes.
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
  // Writes a failure where the other ranks of the host find it; the first one is kept. Allocates
  // nothing, since a lack of memory may be the failure.
  void publish_failure(const Status& failure) noexcept;

  const ForkGeneration fork_generation_;
  const int rank_;
  const std::vector<int> job_ranks_;
  const size_t slot_bytes_;
  const WaitPolicy policy_;
  // In the shared memory, in this order; the slots begin at a page.
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
