// SPDX-License-Identifier: Apache-2.0
// Finds out which tensors every rank of a process set has, and decides what all of them do next.
// A state machine without I/O: requests and messages in, messages and plans out.
//
// Ranks form a tree. Each tells its parent of a tensor once all ranks below it, and itself, have
// it; so a decision costs every rank a few messages however many ranks there are. The root, which
// is the coordinator, has heard of everything that is complete; it makes a Plan, which goes down
// the tree and is carried out by all ranks in the same order.
//
// A name that was agreed on before travels as a number (ResponseCache). A message that uses a
// number may cross a plan that gave the number up: therefore messages upwards say how many plans
// their sender had seen, and a rank remembers numbers it gave up until all ranks below know.
//
// Requests of one name that do not match are found where they meet, and travel on as the error
// that in the end every rank gets for this tensor. The engine goes on.
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
  int rank = 0;
  int parent = -1;
  struct Child {
    int rank;
    std::vector<int> below;  // the ranks of its subtree, itself included
  };
  std::vector<Child> children;
  std::vector<int> job_ranks;  // by rank of the set: what messages to users say
  size_t cache_capacity = 1024;
  bool groups_matter = false;  // plans tell which tensors were submitted together

  // The place of `rank` in the tree of `topology`.
  static NegotiatorOptions in_tree(int rank, const Topology& topology);
};

class Negotiator {
 public:
  explicit Negotiator(NegotiatorOptions options);
  ~Negotiator();
  Negotiator(const Negotiator&) = delete;
  Negotiator& operator=(const Negotiator&) = delete;

  // Events. --------------------------------------------------------------------------------------

  // This rank has a tensor. Its name is not in use by an earlier one that no plan has answered.
  // `user_data` comes back with the plan that answers it. `known` is what an earlier call left
  // there for the same name, or kNoResponse.
  void announce(const Request& request, uint32_t group, void* user_data, ResponseId& known);
  void announce(const Request& request, uint32_t group = 0, void* user_data = nullptr) {
    ResponseId unknown = kNoResponse;
    announce(request, group, user_data, unknown);
  }
  // From now on this rank takes part in every reduction without having a tensor.
  void join();
  // This rank wants the engine to end everywhere.
  void request_shutdown(const Status& reason);
  // Only at the root: the next plan carries them.
  void set_tunables(ByteBuffer tunables) { tunables_ = std::move(tunables); }
  // A message of the parent or of a child. Fails when it makes no sense: then the job is broken.
  Status receive(int from, ConstBytes message);

  // Decisions. -----------------------------------------------------------------------------------

  // At the root: whether a plan could be made now.
  bool can_decide() const { return is_coordinator() && has_news_; }
  // At the root: makes a plan of everything that is complete.
  void decide();

  // Hands over what neighbours have to be told since the last call.
  using Send = FunctionRef<Status(int to, ConstBytes message, Urgency urgency)>;
  Status flush(Send send);

  // The next plan, in the order of all ranks; false when there is none yet.
  bool next_plan(Plan& plan);

  // Facts. ---------------------------------------------------------------------------------------

  bool is_coordinator() const { return options_.parent < 0; }
  bool has_joined() const { return joined_[options_.rank]; }
  // As far as this rank knows; the coordinator knows of all.
  bool has_joined(int rank) const { return joined_[rank]; }
  bool any_rank_joined() const { return joined_count_ > 0; }
  const ResponseCache& cache() const { return cache_; }
  // Messages sent so far: what the control plane costs.
  uint64_t messages_sent() const { return messages_sent_; }
  // Tensors that some ranks have and that no plan has answered, as far as known here.
  size_t waiting() const { return pending_.waiting(); }
  // Numbers that were given up and that a rank below may still use.
  size_t retired() const { return retired_.size(); }

  // Receives every arrival; may be null, and must outlive the negotiator.
  void set_observer(EngineObserver* observer) { observer_ = observer; }

  // A change of the cache's size, which every rank makes between the same two plans: hence as soon
  // as it has the first of them, before it receives or decides anything else.
  void set_cache_capacity(size_t capacity);

 private:
  // One party has a tensor: as the number of a cached response, or as a request.
  void arrive(int party, PendingTensor& known);
  void arrive(int party, MergedRequest merged);
  void note_arrival(int party, PendingTensor& pending, const Request& request);
  PendingTensor* find_known(
      const std::string& name) const;  // null when the cache has no response for it
  PendingTensor* find_pending(const std::string& name) const;  // null when there is none
  PendingTensor& pending_of(const std::string& name);
  void merge(PendingTensor& pending, MergedRequest merged) const;
  // What arrived as a number becomes a request like any other.
  void spell_out(PendingTensor& pending, const Response& cached) const;
  MergedRequest merged_from(const Response& cached, int party) const;
  int rank_with_tensor(int party) const;
  void complete_if_all_have(PendingTensor& pending);
  // Returns the user_data of this rank's tensor.
  void* forget_arrivals(const std::string& name);

  Status receive_announcement(int party, Decoder& in);
  // A number may have been given up meanwhile.
  Status arrive_by_number(int party, ResponseId id);
  Status receive_plan(ConstBytes message);
  Status expect_answer(const PendingTensor* pending, const std::string& name) const;
  // `cached` are the tensors that it names by number.
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
  const int self_;  // the party that is this rank
  const Parties all_parties_;
  std::vector<int> party_of_;  // by rank: the party that it belongs to, -1 if it is above

  ResponseCache cache_;
  PendingTable pending_;                  // its known tensors are those of cache_
  std::vector<PendingTensor*> complete_;  // to be told to the parent, or at the root to be planned
  bool has_news_ = false;                 // at the root: there is something to plan

  // Join.
  std::vector<bool> joined_;  // by rank, as far as known here
  int joined_count_ = 0;
  int last_joined_ = -1;
  std::vector<size_t> joined_below_;  // by party: how many of its ranks have
  Parties joined_parties_ = 0;        // those all of whose ranks have
  std::vector<int> joins_to_send_;

  Status shutdown_;  // what this rank or one below asked for
  bool shutdown_to_send_ = false;
  ByteBuffer tunables_;

  // Plans.
  std::deque<Plan> plans_;
  uint64_t plans_seen_ = 0;
  std::vector<ByteBuffer> plans_to_send_;
  bool urgent_ = false;

  // Numbers that were given up, oldest first, and how far each child is known to be.
  struct Retired {
    uint64_t at_plan;
    ResponseId id;
    std::shared_ptr<const Response> response;
  };
  std::deque<Retired> retired_;
  std::vector<uint64_t> plans_seen_by_;

  std::vector<PendingTensor*> answered_;  // kept for its memory

  uint64_t messages_sent_ = 0;
  EngineObserver* observer_ = nullptr;
};

}  // namespace hvd
