// SPDX-License-Identifier: Apache-2.0
// The second half of the negotiator: makes plans of complete tensors, and applies plans to the
// cache of responses. The cache is the same on all ranks because all of them apply the same plans
// in the same order.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/messages.h"
#include "engine/negotiator.h"

namespace hvd {
namespace {

constexpr bool may_run_with_joined(RequestType type) {
  return type == RequestType::kAllreduce || type == RequestType::kAdasum;
}

constexpr bool may_be_remembered(RequestType type) {
  return type != RequestType::kAddProcessSet && type != RequestType::kRemoveProcessSet;
}

}  // namespace

// The plan lists first the tensors that all ranks have announced by number, in ascending order and
// as numbers. All other tensors follow as responses.
void Negotiator::decide() {
  HVD_CHECK(can_decide());
  has_news_ = false;
  DecidedPlan decided;
  decided.remember = joined_count_ == 0;
  std::vector<PendingTensor*>& cached = answered_;
  cached.clear();
  std::vector<uint32_t> spelled_groups;
  for (PendingTensor* pending : std::exchange(complete_, {})) {
    if (pending->merged == nullptr &&
        (joined_count_ == 0 || may_run_with_joined(pending->cached->response->request.type))) {
      cached.push_back(pending);
    } else {
      decided.spelled.push_back(decide_one(*pending));
      spelled_groups.push_back(pending->group);
    }
  }
  // Mostly they are already sorted. A sort would then cost ten times as much as this check.
  const auto is_older = [](const PendingTensor* a, const PendingTensor* b) {
    return a->cached->id < b->cached->id;
  };
  if (!std::is_sorted(cached.begin(), cached.end(), is_older)) {
    std::sort(cached.begin(), cached.end(), is_older);
  }
  decided.cached.reserve(cached.size());
  for (const PendingTensor* pending : cached) {
    decided.cached.push_back(pending->cached->id);
    if (options_.groups_matter) decided.groups.push_back(pending->group);
  }
  if (options_.groups_matter) {
    decided.groups.insert(decided.groups.end(), spelled_groups.begin(), spelled_groups.end());
  }
  if (joined_count_ == size_) decided.last_joined = last_joined_;
  decided.tunables = std::exchange(tunables_, {});
  decided.shutdown = std::exchange(shutdown_, Status::ok());
  joins_to_send_.clear();
  shutdown_to_send_ = false;
  if (!decided.shutdown.is_ok()) urgent_ = true;
  if (!options_.children.empty()) plans_to_send_.push_back(encode(decided));
  apply(decided, cached);
}

// The response to a tensor that all ranks have announced: their common request, or an error.
Response Negotiator::decide_one(PendingTensor& pending) const {
  Response response;
  if (pending.merged == nullptr) {
    response = *pending.cached->response;
  } else {
    response.request = pending.merged->request;
    response.error = pending.merged->conflict;
  }
  const Request& request = response.request;
  if (response.error.is_ok() && joined_count_ > 0 && !may_run_with_joined(request.type)) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size_; ++rank) {
      if (joined_[rank]) ranks.push_back(options_.job_ranks[rank]);
    }
    response.error = precondition(
        fmt::format("{} \"{}\" is not supported with Join: rank {} has joined and has no data to "
                    "give; only reductions go on then",
                    to_string(request.type), request.name, fmt::join(ranks, ", ")));
  }
  if (response.error.is_ok()) response.error = validate(request);
  if (response.error.is_ok() && request.type == RequestType::kAllgather &&
      pending.merged != nullptr) {
    response.first_dimensions.assign(size_, 0);
    for (const auto& each : pending.merged->first_dimensions) {
      response.first_dimensions[each.rank] = each.rows;
    }
  }
  return response;
}

// Checks the whole plan before it changes any state.
Status Negotiator::receive_plan(ConstBytes message) {
  HVD_TRY_ASSIGN(DecidedPlan decided, decode_plan(message));
  answered_.clear();
  for (const ResponseId id : decided.cached) {
    PendingTensor* known = pending_.find(id);
    if (known == nullptr) {
      return internal_error(fmt::format("a plan names unknown tensor number {}", id));
    }
    HVD_TRY(expect_answer(known, known->cached->response->request.name));
    answered_.push_back(known);
  }
  for (const Response& response : decided.spelled) {
    HVD_TRY(expect_answer(find_pending(response.request.name), response.request.name));
    const bool gathers = response.request.type == RequestType::kAllgather;
    if (gathers && response.error.is_ok() &&
        (response.first_dimensions.size() != static_cast<size_t>(size_) ||
         response.request.shape.empty())) {
      return invalid_argument("malformed message: sizes of an allgather");
    }
  }
  if (decided.last_joined >= size_) return invalid_argument("malformed message: last joined");
  if (!decided.shutdown.is_ok()) urgent_ = true;
  if (!options_.children.empty()) plans_to_send_.emplace_back(message.begin(), message.end());
  apply(decided, answered_);
  return Status::ok();
}

// A plan may name tensors that this rank has announced; once this rank and all ranks below it have
// joined, it may name any tensor.
Status Negotiator::expect_answer(const PendingTensor* pending, const std::string& name) const {
  const bool has = pending != nullptr && pending->arrived != 0;
  if (has ? pending->announced : joined_parties_ == all_parties_) return Status::ok();
  return internal_error(fmt::format("a plan names \"{}\", which not all ranks have", name));
}

void Negotiator::apply(DecidedPlan& decided, std::span<PendingTensor* const> cached) {
  Plan& plan = plans_.emplace_back();
  ++plans_seen_;
  plan.responses.reserve(cached.size() + decided.spelled.size());
  plan.details.reserve(plan.responses.capacity());
  for (PendingTensor* pending : cached) {
    cache_.touch(*pending->cached);
    plan.details.push_back({pending->user_data, pending->cached->id});
    plan.responses.push_back(pending->cached->response);
    pending->clear_arrivals();
  }
  // This loop handles all of them before the first insert, because inserting one response may evict
  // the entry of another.
  for (const Response& response : decided.spelled) {
    plan.details.push_back({forget_arrivals(response.request.name), kNoResponse});
  }
  std::vector<ResponseCache::Entry> evicted;
  for (const Response& response : decided.spelled) {
    auto shared = std::make_shared<const Response>(response);
    if (decided.remember && response.error.is_ok() && may_be_remembered(response.request.type)) {
      if (const ResponseCache::Entry* entry = cache_.insert(shared, evicted)) {
        pending_.add(*entry);
        plan.details[plan.responses.size()].id = entry->id;
      }
    }
    plan.responses.push_back(std::move(shared));
  }
  retire(evicted);
  plan.groups = std::move(decided.groups);
  plan.joined_here = has_joined();
  plan.tunables = std::move(decided.tunables);
  plan.shutdown = std::move(decided.shutdown);
  if (decided.last_joined >= 0) {
    plan.last_joined = decided.last_joined;
    unjoin_all();
  }
}

void* Negotiator::forget_arrivals(const std::string& name) {
  PendingTensor* pending = find_pending(name);
  if (pending == nullptr) return nullptr;
  void* const user_data = pending->user_data;
  if (pending->cached != nullptr) {
    pending->clear_arrivals();
  } else {
    pending_.erase(name);
  }
  return user_data;
}

// A tensor that has arrived under an evicted number stays pending under its name.
void Negotiator::retire(std::vector<ResponseCache::Entry>& evicted) {
  for (ResponseCache::Entry& entry : evicted) {
    PendingTensor& pending = *pending_.find(entry.id);
    if (pending.arrived != 0 && pending.merged == nullptr) spell_out(pending, *entry.response);
    pending_.forget_id(entry.id, entry.response->request.name);
    if (!options_.children.empty()) retired_.push_back({plans_seen_, entry.id, entry.response});
  }
}

void Negotiator::forget_retired() {
  uint64_t seen_by_all = plans_seen_;
  for (int party = 0; party < self_; ++party) {
    // Ranks that have joined announce nothing and so use no numbers.
    if ((joined_parties_ >> party & 1) == 0)
      seen_by_all = std::min(seen_by_all, plans_seen_by_[party]);
  }
  while (!retired_.empty() && retired_.front().at_plan <= seen_by_all) retired_.pop_front();
}

void Negotiator::set_cache_capacity(size_t capacity) {
  std::vector<ResponseCache::Entry> evicted;
  cache_.set_capacity(capacity, evicted);
  retire(evicted);
}

bool Negotiator::next_plan(Plan& plan) {
  if (plans_.empty()) return false;
  plan = std::move(plans_.front());
  plans_.pop_front();
  return true;
}

}  // namespace hvd
