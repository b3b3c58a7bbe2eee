// SPDX-License-Identifier: Apache-2.0
// Finds out which tensors every rank of a process set has, and decides what all ranks do next. It
// is a state machine without I/O: requests and messages go in, messages and plans come out.
// docs/negotiation.md describes the protocol.
//
// Words:
//   tree          the ranks of a set; rank 0 is its top and the coordinator
//   party         one child with all ranks below it, or this rank itself
//   arrival       a party has a tensor
//   complete      all parties that have not joined have the tensor
//   announcement  message to the parent: the tensors that are complete here
//   plan          message to the children: the tensors that all ranks carry out next, in this order
//
// A rank announces a tensor to its parent once the tensor is complete. So a decision costs every
// rank a few messages, and their number does not grow with the number of ranks. A tensor that is
// complete at the coordinator is complete everywhere; the coordinator puts it into a plan, which
// travels down the tree.
//
// Life of a tensor at one rank:
//
//   absent --first arrival--> pending --last arrival--> complete --flush()--> announced
//      ^                                                    | (coordinator)       |
//      +------------------- plan applied <-----decide()-----+---- plan received --+
//
// Numbers. A number is a ResponseId. A tensor that an earlier plan answered is in the ResponseCache
// of every rank, under the same number. Messages contain this number instead of the request. A plan
// may evict a number while an announcement that uses the number is on its way to the parent. So an
// announcement contains how many plans its sender has applied. A rank keeps an evicted number as a
// retired number until every child has applied the plan that evicted it.
//
// Mismatches. If requests of one name do not match, the rank where they meet in the tree finds it.
// It announces the tensor with a conflict, and every rank gets the conflict as the error of this
// tensor. The engine continues.
//
// One thread at a time may call it: the one that runs the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "engine/observer.h"
#include "engine/pending_table.h"
#include "engine/plan.h"
#include "engine/request.h"
#include "engine/response_cache.h"
#include "transport/control/doorbell.h"
#include "transport/topology.h"

namespace hvd {

struct DecidedPlan;

struct NegotiatorOptions {
  int rank = 0;     // of the set, like every rank in this header
  int parent = -1;  // -1 at the coordinator
  struct Child {
    int rank;
    std::vector<int> below;  // the ranks of its subtree, itself included
  };
  std::vector<Child> children;   // at most 30
  std::vector<int> job_ranks;    // by rank of the set: the rank of the job, for error messages
  size_t cache_capacity = 1024;  // responses; equal on all ranks; 0: tensors never get numbers
  bool groups_matter = false;    // plans contain which tensors were submitted together

  // For `rank` in the control tree of `topology`.
  static NegotiatorOptions in_tree(int rank, const Topology& topology);
};

class Negotiator {
 public:
  explicit Negotiator(NegotiatorOptions options);
  ~Negotiator();
  Negotiator(const Negotiator&) = delete;
  Negotiator& operator=(const Negotiator&) = delete;

  // Events. --------------------------------------------------------------------------------------

  // This rank has a tensor. A plan must have answered the earlier tensor of the same name, if there
  // is one. The plan that answers this tensor contains `user_data`. The message to the parent is
  // sent later, by flush(). `known` is input and output: it holds the number that the previous call
  // for this name stored there, or kNoResponse. It saves the lookup by name.
  void announce(const Request& request, uint32_t group, void* user_data, ResponseId& known);
  void announce(const Request& request, uint32_t group = 0, void* user_data = nullptr) {
    ResponseId unknown = kNoResponse;
    announce(request, group, user_data, unknown);
  }
  // From now on, until all ranks have joined, this rank takes part in every reduction without a
  // tensor of its own.
  void join();
  // Asks the coordinator to end the engine on all ranks. The first reason wins.
  void request_shutdown(const Status& reason);
  // Only at the coordinator: the next plan contains them.
  void set_tunables(ByteBuffer tunables) { tunables_ = std::move(tunables); }
  // A message of the parent or of a child. Fails for a malformed or unexpected message: then the
  // ranks disagree on the state, and the engine has to end.
  Status receive(int from, ConstBytes message);

  // Decisions. -----------------------------------------------------------------------------------

  // Whether this is the coordinator and has something to plan.
  bool can_decide() const { return is_coordinator() && has_news_; }
  // Only if can_decide(): makes a plan of everything that is complete.
  void decide();

  // Sends the plans and the announcement that have gathered since the last call.
  using Send = FunctionRef<Status(int to, ConstBytes message, Urgency urgency)>;
  Status flush(Send send);

  // The next plan, in the order that all ranks share; false when there is none yet.
  bool next_plan(Plan& plan);

  // Facts. ---------------------------------------------------------------------------------------

  bool is_coordinator() const { return options_.parent < 0; }
  bool has_joined() const { return joined_[options_.rank]; }
  // Whether `rank` has joined, according to the messages that this rank has received. The
  // coordinator receives all joins.
  bool has_joined(int rank) const { return joined_[rank]; }
  bool any_rank_joined() const { return joined_count_ > 0; }
  const ResponseCache& cache() const { return cache_; }
  // Messages sent so far.
  uint64_t messages_sent() const { return messages_sent_; }
  // Tensors that at least one party has and that no plan has answered.
  size_t waiting() const { return pending_.waiting(); }
  // Evicted numbers that a rank below this one may still use.
  size_t retired() const { return retired_.size(); }

  // Receives every arrival; may be null, and must outlive the negotiator.
  void set_observer(EngineObserver* observer) { observer_ = observer; }

  // Changes the capacity of the cache. Every rank must call it after the same plan: directly after
  // next_plan() has returned that plan, and before the next receive() or decide().
  void set_cache_capacity(size_t capacity);

 private:
  // One party has a tensor. The first overload is for a tensor that the party has named by the
  // number of a cached response, the second for a request.
  void arrive(int party, PendingTensor& known);
  void arrive(int party, MergedRequest merged);
  void note_arrival(int party, PendingTensor& pending, const Request& request);
  PendingTensor* find_known(
      const std::string& name) const;  // null when the cache has no response for it
  PendingTensor* find_pending(const std::string& name) const;  // null when there is none
  PendingTensor& pending_of(const std::string& name);
  void merge(PendingTensor& pending, MergedRequest merged) const;
  // Replaces the number in the arrivals of `pending` by the request that it stands for, and merges
  // these requests.
  void spell_out(PendingTensor& pending, const Response& cached) const;
  // The request that `party` has if it has announced the number of `cached`.
  MergedRequest merged_from(const Response& cached, int party) const;
  int rank_with_tensor(int party) const;
  void complete_if_all_have(PendingTensor& pending);
  // Removes all arrivals of the tensor; returns the user_data of this rank's announcement.
  void* forget_arrivals(const std::string& name);

  Status receive_announcement(int party, Decoder& in);
  // The number may have been evicted since the party sent it.
  Status arrive_by_number(int party, ResponseId id);
  Status receive_plan(ConstBytes message);
  // Fails for a plan that names a tensor which this rank has not announced.
  Status expect_answer(const PendingTensor* pending, const std::string& name) const;
  // The step that every rank takes with every plan: answers tensors, updates the cache, and queues
  // the Plan. `cached` are the tensors that `decided` names by number.
  void apply(DecidedPlan& decided, std::span<PendingTensor* const> cached);
  void retire(std::vector<ResponseCache::Entry>& evicted);
  void forget_retired();
  void mark_joined(int rank);
  void spell_out_arrivals(int party);
  void unjoin_all();

  Response decide_one(PendingTensor& pending) const;
  bool has_announcement() const;
  ByteBuffer encode_announcement();

  // Constant after construction.
  const NegotiatorOptions options_;
  const int size_;
  const int self_;  // the party that is this rank; children are parties 0 to self_ - 1
  const Parties all_parties_;
  std::vector<int> party_of_;  // by rank: its party, or -1 for a rank that is not below this one

  ResponseCache cache_;
  PendingTable pending_;                  // its known tensors are those of cache_
  std::vector<PendingTensor*> complete_;  // not announced yet; at the coordinator: not planned yet
  bool has_news_ = false;                 // at the coordinator: there is something to plan

  // Joins that this rank has received from below, and its own.
  std::vector<bool> joined_;  // by rank
  int joined_count_ = 0;
  int last_joined_ = -1;
  std::vector<size_t> joined_below_;  // by party: how many of its ranks have joined
  Parties joined_parties_ = 0;        // parties of which all ranks have joined
  std::vector<int> joins_to_send_;

  Status shutdown_;  // the reason from this rank, or from a rank below it
  bool shutdown_to_send_ = false;
  ByteBuffer tunables_;

  // Plans.
  std::deque<Plan> plans_;
  uint64_t plans_seen_ = 0;  // plans applied
  std::vector<ByteBuffer> plans_to_send_;
  bool urgent_ = false;  // the plans to send end the engine: they must wake idle ranks

  // Evicted numbers, oldest first; and, in plans_seen_by_, how many plans each child had applied
  // when it sent its last announcement.
  struct Retired {
    uint64_t at_plan;
    ResponseId id;
    std::shared_ptr<const Response> response;
  };
  std::deque<Retired> retired_;
  std::vector<uint64_t> plans_seen_by_;

  std::vector<PendingTensor*> answered_;  // of one plan; a member to reuse its memory

  uint64_t messages_sent_ = 0;
  EngineObserver* observer_ = nullptr;
};

}  // namespace hvd
