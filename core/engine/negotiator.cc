// SPDX-License-Identifier: Apache-2.0
// The first half of the negotiator: which party has which tensor, which ranks have joined, and the
// announcements to the parent. The second half is in negotiator_plans.cc.
#include "engine/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/messages.h"
#include "transport/control/tree.h"

namespace hvd {

namespace {

void collect_below(int rank, const Topology& topology, std::vector<int>& below) {
  below.push_back(rank);
  for (const int child : ControlTree::of(rank, topology).children) {
    collect_below(child, topology, below);
  }
}

}  // namespace

NegotiatorOptions NegotiatorOptions::in_tree(int rank, const Topology& topology) {
  NegotiatorOptions options;
  const ControlTree tree = ControlTree::of(rank, topology);
  options.rank = rank;
  options.parent = tree.parent;
  for (const int child : tree.children) {
    options.children.push_back({child, {}});
    collect_below(child, topology, options.children.back().below);
  }
  for (int each = 0; each < topology.size(); ++each) options.job_ranks.push_back(each);
  return options;
}

Negotiator::Negotiator(NegotiatorOptions options)
    : options_(std::move(options)),
      size_(static_cast<int>(options_.job_ranks.size())),
      self_(static_cast<int>(options_.children.size())),
      all_parties_((Parties{2} << self_) - 1),
      party_of_(size_, -1),
      cache_(options_.cache_capacity),
      joined_(size_, false),
      joined_below_(self_ + 1, 0),
      plans_seen_by_(self_, 0) {
  HVD_CHECK(self_ < 31);
  party_of_[options_.rank] = self_;
  for (int party = 0; party < self_; ++party) {
    for (const int rank : options_.children[party].below) party_of_[rank] = party;
  }
}

Negotiator::~Negotiator() = default;

// Arrivals ---------------------------------------------------------------------------------------

void Negotiator::announce(const Request& request, uint32_t group, void* user_data,
                          ResponseId& known) {
  // The lookup by number comes first, because it is faster than by name.
  PendingTensor* cached = pending_.find(known);
  if (cached == nullptr || cached->cached->response->request.name != request.name) {
    cached = find_known(request.name);
    known = cached == nullptr ? kNoResponse : cached->cached->id;
  }
  if (cached != nullptr &&
      ResponseCache::answers(*cached->cached->response, request, options_.rank)) {
    cached->group = group;
    cached->user_data = user_data;
    return arrive(self_, *cached);
  }
  PendingTensor& pending = cached != nullptr ? *cached : pending_of(request.name);
  pending.group = group;
  pending.user_data = user_data;
  MergedRequest merged{request, options_.rank, {}, Status::ok()};
  if (request.type == RequestType::kAllgather && !request.shape.empty()) {
    merged.first_dimensions.push_back({options_.rank, request.shape.front()});
  }
  arrive(self_, std::move(merged));
}

void Negotiator::arrive(int party, PendingTensor& known) {
  const Response& cached = *known.cached->response;
  if (known.merged != nullptr) merge(known, merged_from(cached, party));
  note_arrival(party, known, cached.request);
}

void Negotiator::arrive(int party, MergedRequest merged) {
  PendingTensor& pending = pending_of(merged.request.name);
  if (pending.merged == nullptr && pending.arrived != 0) {
    spell_out(pending, *pending.cached->response);
  }
  merge(pending, std::move(merged));
  note_arrival(party, pending, pending.merged->request);
}

void Negotiator::note_arrival(int party, PendingTensor& pending, const Request& request) {
  const bool first = pending.arrived == 0;
  pending.arrived |= Parties{1} << party;
  if (observer_ != nullptr) {
    observer_->on_arrival({.id = pending.cached == nullptr ? kNoResponse : pending.cached->id,
                           .request = request,
                           .is_first = first,
                           .ranks = party == self_
                                        ? std::span(&options_.rank, 1)
                                        : std::span<const int>(options_.children[party].below)});
  }
  complete_if_all_have(pending);
}

PendingTensor* Negotiator::find_known(const std::string& name) const {
  const ResponseCache::Entry* cached = cache_.find(name);
  return cached == nullptr ? nullptr : pending_.find(cached->id);
}

PendingTensor* Negotiator::find_pending(const std::string& name) const {
  PendingTensor* known = find_known(name);
  return known != nullptr ? known : pending_.find(name);
}

PendingTensor& Negotiator::pending_of(const std::string& name) {
  PendingTensor* found = find_pending(name);
  return found != nullptr ? *found : pending_.add(name);
}

void Negotiator::merge(PendingTensor& pending, MergedRequest merged) const {
  if (pending.merged == nullptr) {
    pending.merged = std::make_unique<MergedRequest>(std::move(merged));
    return;
  }
  MergedRequest& known = *pending.merged;
  if (known.conflict.is_ok()) {
    known.conflict = merged.conflict.is_ok()
                         ? compare(known.request, options_.job_ranks[known.rank], merged.request,
                                   options_.job_ranks[merged.rank])
                         : merged.conflict;
  }
  known.first_dimensions.insert(known.first_dimensions.end(), merged.first_dimensions.begin(),
                                merged.first_dimensions.end());
}

void Negotiator::spell_out(PendingTensor& pending, const Response& cached) const {
  for (int party = 0; party <= self_; ++party) {
    if (pending.has_arrived(party)) merge(pending, merged_from(cached, party));
  }
}

// For error messages about a tensor that `party` announced by number. All ranks of the party that
// have not joined have the tensor.
int Negotiator::rank_with_tensor(int party) const {
  if (party == self_) return options_.rank;
  const NegotiatorOptions::Child& child = options_.children[party];
  const auto found = std::find_if(child.below.begin(), child.below.end(),
                                  [this](int rank) { return !joined_[rank]; });
  return found == child.below.end() ? child.rank : *found;
}

MergedRequest Negotiator::merged_from(const Response& cached, int party) const {
  const int rank = rank_with_tensor(party);
  MergedRequest merged{cached.request, rank, {}, Status::ok()};
  if (cached.request.type == RequestType::kAllgather) {
    const auto add = [&](int each) {
      merged.first_dimensions.push_back({each, cached.first_dimensions[each]});
    };
    if (party == self_) {
      add(rank);
    } else {
      for (const int each : options_.children[party].below) add(each);
    }
    merged.request.shape.front() = cached.first_dimensions[rank];
  }
  return merged;
}

void Negotiator::complete_if_all_have(PendingTensor& pending) {
  const Parties needed = all_parties_ & ~joined_parties_;
  if (pending.complete || pending.arrived == 0 || (pending.arrived & needed) != needed) return;
  pending.complete = true;
  complete_.push_back(&pending);
  has_news_ = true;
}

// Join and shutdown ------------------------------------------------------------------------------

void Negotiator::join() { mark_joined(options_.rank); }

// If `rank` is the last rank of its party that joins, the tensors that only this party did not have
// become complete.
void Negotiator::mark_joined(int rank) {
  if (joined_[rank]) return;
  const int party = party_of_[rank];
  const size_t ranks = party == self_ ? 1 : options_.children[party].below.size();
  const bool is_last = ++joined_below_[party] == ranks;
  if (is_last) spell_out_arrivals(party);
  joined_[rank] = true;
  ++joined_count_;
  last_joined_ = rank;
  joins_to_send_.push_back(rank);
  if (joined_count_ == size_) has_news_ = true;
  if (!is_last) return;
  joined_parties_ |= Parties{1} << party;
  pending_.for_each([this](PendingTensor& pending) { complete_if_all_have(pending); });
}

// Called when the last rank of `party` joins. Arrivals by number become requests now, because
// rank_with_tensor() finds no rank of the party once all of them have joined.
void Negotiator::spell_out_arrivals(int party) {
  pending_.for_each_known([&](PendingTensor& pending) {
    if (pending.has_arrived(party) && pending.merged == nullptr) {
      spell_out(pending, *pending.cached->response);
    }
  });
}

void Negotiator::unjoin_all() {
  joined_.assign(size_, false);
  joined_count_ = 0;
  joined_below_.assign(self_ + 1, 0);
  joined_parties_ = 0;
}

void Negotiator::request_shutdown(const Status& reason) {
  if (!shutdown_.is_ok()) return;
  shutdown_ = reason;
  shutdown_to_send_ = true;
  has_news_ = true;
}

// Messages ---------------------------------------------------------------------------------------

Status Negotiator::receive(int from, ConstBytes message) {
  HVD_TRY_ASSIGN(const MessageKind kind, kind_of(message));
  if (kind == MessageKind::kPlan && from == options_.parent) return receive_plan(message);
  const int party = party_of_[from];
  if (kind != MessageKind::kAnnouncement || party < 0 || party == self_) {
    return internal_error(fmt::format("rank {} sent a message that it must not send", from));
  }
  Decoder in(message.subspan(1));
  return receive_announcement(party, in);
}

Status Negotiator::receive_announcement(int party, Decoder& in) {
  std::vector<ResponseId> ids;
  uint32_t spelled = 0;
  HVD_TRY(in.get(plans_seen_by_[party]));
  // The joins come first: a rank that has joined may not have the tensors of the numbers.
  std::vector<int32_t> joined;
  HVD_TRY(in.get(joined));
  for (const int rank : joined) {
    if (rank < 0 || rank >= size_ || party_of_[rank] != party) {
      return invalid_argument("malformed message: ranks that joined");
    }
    mark_joined(rank);
  }
  HVD_TRY(decode_ids(in, ids));
  for (const ResponseId id : ids) HVD_TRY(arrive_by_number(party, id));
  HVD_TRY(in.get(spelled));
  for (uint32_t i = 0; i < spelled; ++i) {
    MergedRequest merged;
    HVD_TRY(decode(in, merged.request));
    HVD_TRY(in.get(merged.rank));
    std::vector<int32_t> ranks;
    std::vector<int64_t> rows;
    HVD_TRY(in.get(ranks));
    HVD_TRY(in.get(rows));
    HVD_TRY(decode(in, merged.conflict));
    const auto is_below = [&](int rank) {
      return rank >= 0 && rank < size_ && party_of_[rank] == party;
    };
    if (!is_below(merged.rank) || ranks.size() != rows.size() ||
        !std::all_of(ranks.begin(), ranks.end(), is_below) ||
        std::any_of(rows.begin(), rows.end(), [](int64_t each) { return each < 0; })) {
      return invalid_argument("malformed message: ranks of a request");
    }
    for (size_t j = 0; j < ranks.size(); ++j) {
      merged.first_dimensions.push_back({ranks[j], rows[j]});
    }
    arrive(party, std::move(merged));
  }
  Status shutdown;
  HVD_TRY(decode(in, shutdown));
  if (!shutdown.is_ok()) request_shutdown(shutdown);
  HVD_TRY(in.finish());
  forget_retired();
  return Status::ok();
}

Status Negotiator::arrive_by_number(int party, ResponseId id) {
  if (PendingTensor* known = pending_.find(id)) {
    arrive(party, *known);
    return Status::ok();
  }
  for (const Retired& retired : retired_) {
    if (retired.id != id) continue;
    arrive(party, merged_from(*retired.response, party));
    return Status::ok();
  }
  return internal_error(fmt::format("unknown tensor number {}", id));
}

bool Negotiator::has_announcement() const {
  return !complete_.empty() || !joins_to_send_.empty() || shutdown_to_send_;
}

// Layout: messages.h. Empties complete_.
ByteBuffer Negotiator::encode_announcement() {
  std::vector<ResponseId> ids;
  std::vector<const PendingTensor*> spelled;
  for (PendingTensor* pending : complete_) {
    pending->announced = true;
    if (pending->merged == nullptr) {
      ids.push_back(pending->cached->id);
    } else {
      spelled.push_back(pending);
    }
  }
  complete_.clear();
  if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
  Encoder out;
  out.put(static_cast<uint8_t>(MessageKind::kAnnouncement)).put(plans_seen_).put(joins_to_send_);
  encode_ids(ids, out);
  out.put(static_cast<uint32_t>(spelled.size()));
  for (const PendingTensor* pending : spelled) {
    const MergedRequest& merged = *pending->merged;
    encode(merged.request, out);
    std::vector<int32_t> ranks;
    std::vector<int64_t> rows;
    for (const auto& each : merged.first_dimensions) {
      ranks.push_back(each.rank);
      rows.push_back(each.rows);
    }
    out.put(merged.rank).put(ranks).put(rows);
    encode(merged.conflict, out);
  }
  encode(shutdown_to_send_ ? shutdown_ : Status::ok(), out);
  return out.take();
}

// Plans are sent first, because the children wait for them. All tensors that became complete since
// the last call are announced in one message.
Status Negotiator::flush(Send send) {
  const Urgency urgency = std::exchange(urgent_, false) ? Urgency::kUrgent : Urgency::kUsual;
  for (const ByteBuffer& plan : plans_to_send_) {
    for (const auto& child : options_.children) HVD_TRY(send(child.rank, plan, urgency));
    messages_sent_ += options_.children.size();
  }
  plans_to_send_.clear();
  if (is_coordinator() || !has_announcement()) return Status::ok();
  const bool urgent = shutdown_to_send_;
  const ByteBuffer announcement = encode_announcement();
  joins_to_send_.clear();
  shutdown_to_send_ = false;
  ++messages_sent_;
  return send(options_.parent, announcement, urgent ? Urgency::kUrgent : Urgency::kUsual);
}

}  // namespace hvd
