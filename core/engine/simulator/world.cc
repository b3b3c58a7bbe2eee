// SPDX-License-Identifier: Apache-2.0
#include "engine/simulator/world.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvd::simulator {
namespace {

constexpr size_t kTraceLines = 60;

uint64_t batch_of(Round round, uint32_t group) {
  return static_cast<uint64_t>(round.epoch) << 48 | static_cast<uint64_t>(round.step) << 32 | group;
}

std::string summary(const Plan& plan) {
  std::string text;
  for (const auto& response : plan.responses) {
    text += " " + response->request.name;
    if (!response->error.is_ok()) text += " (" + response->error.message() + ")";
  }
  if (plan.last_joined) text += fmt::format(" all joined, last {}", *plan.last_joined);
  if (!plan.tunables.empty()) text += " tunables";
  if (!plan.shutdown.is_ok()) text += " the end";
  return text;
}

}  // namespace

World::World(uint64_t seed)
    : scenario_(Scenario::of(seed)), random_(seed, {1}), ranks_(scenario_.ranks) {
  for (Rank& rank : ranks_) rank.pace = random_.chance(scenario_.slow_percent) ? 10 : 1;
  for (const SetScenario& what : scenario_.sets) {
    Set& set = sets_.emplace_back(what);
    const Topology topology(what.host_of);
    set.members.resize(what.size());
    for (int member = 0; member < what.size(); ++member) {
      NegotiatorOptions options = NegotiatorOptions::in_tree(member, topology);
      options.job_ranks = what.members;
      options.cache_capacity = what.cache_capacity;
      options.groups_matter = what.groups_matter;
      set.members[member].parent = options.parent;
      set.members[member].negotiator = std::make_unique<Negotiator>(std::move(options));
    }
  }
}

Status World::run() {
  for (int set = 0; set < static_cast<int>(sets_.size()); ++set) {
    for (int member = 0; member < sets_[set].scenario.size(); ++member) {
      schedule(Kind::kAct, set, member, later(sets_[set].scenario.members[member]));
    }
  }
  for (int rank = 0; rank < scenario_.ranks; ++rank) consider_endings(rank);
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    HVD_TRY(happen(event));
  }
  return check_end();
}

void World::schedule(Kind kind, int set, int member, uint64_t time) {
  events_.push({time, order_++, kind, set, member});
}

uint64_t World::later(int rank) {
  return now_ + 1 + random_.below(scenario_.longest_delay) * ranks_[rank].pace;
}

Status World::happen(const Event& event) {
  const auto [time, order, kind, set, member] = event;
  switch (kind) {
    case Kind::kShutdown: end_job(member); return Status::ok();
    case Kind::kDeath: die(member); return Status::ok();
    case Kind::kFailure: ranks_[member].ended = true; return Status::ok();
    case Kind::kUp: {
      Member& from = sets_[set].members[member];
      return receive(set, from.parent, member, from.up);
    }
    case Kind::kDown: {
      Member& to = sets_[set].members[member];
      return receive(set, member, to.parent, to.down);
    }
    default: break;
  }
  if (rank_of(set, member).ended) return Status::ok();
  Member& self = sets_[set].members[member];
  if (kind == Kind::kAct) {
    self.act_is_due = false;
    act(set, member);
    return Status::ok();
  }
  if (kind == Kind::kCarryOut) return carry_out(set, member);
  self.speak_is_due = false;
  return speak(set, member);
}

// What ranks do by themselves --------------------------------------------------------------------

void World::act(int set, int member) {
  Member& self = sets_[set].members[member];
  if (!rank_of(set, member).submits) return;
  bool goes_on = true;
  for (int left = random_.between(1, scenario_.longest_burst); left > 0 && goes_on; --left) {
    goes_on = advance(set, member);
  }
  speak_soon(set, member);
  if (goes_on && !self.act_is_due) {
    self.act_is_due = true;
    schedule(Kind::kAct, set, member, later(sets_[set].scenario.members[member]));
  }
}

bool World::advance(int set, int member) {
  const SetScenario& what = sets_[set].scenario;
  Judge& judge = sets_[set].judge;
  Member& self = sets_[set].members[member];
  if (is_at_end(sets_[set], self) || judge.has_joined(member)) return false;
  Round& round = self.round;
  if (!self.begun) {
    const bool closes = round.epoch == what.epochs;
    if ((closes || what.waits) && judge.is_waiting(member)) return false;
    if (!closes && round.step == what.steps_of(member, round.epoch)) {
      round = {round.epoch + 1, 0};
      if (!what.joins) return true;
      if (traces_) note(set, member, "joins");
      judge.joined(member);
      self.negotiator->join();
      return false;
    }
    self.todo = what.submissions(member, round);
    self.next = 0;
    self.begun = true;
  }
  if (self.next == self.todo.size()) {
    self.begun = false;
    ++round.step;
    return true;
  }
  const Submission& submission = self.todo[self.next];
  for (const int name : submission.names) {
    if (judge.is_waiting(member, name)) return false;
  }
  submit(set, member, submission);
  ++self.next;
  return true;
}

bool World::is_at_end(const Set& set, const Member& member) {
  return member.round.epoch == set.scenario.epochs &&
         member.round.step == SetScenario::kClosingRounds;
}

void World::submit(int set, int member, const Submission& submission) {
  const SetScenario& what = sets_[set].scenario;
  Member& self = sets_[set].members[member];
  for (const int name : submission.names) {
    Request request = what.request(member, name, self.round);
    if (traces_) {
      note(set, member,
           fmt::format("submits {}: {} {}{}", request.name, to_string(request.type),
                       to_string(request.dtype), to_string(request.shape)));
    }
    self.negotiator->announce(request, submission.group);
    sets_[set].judge.submitted(member, name, std::move(request), submission.group,
                               batch_of(self.round, submission.group));
  }
  if (set != 0) return;
  const int rank = what.members[member];
  ++ranks_[rank].submissions;
  consider_endings(rank);
}

// Endings happen some time after a submission, so that they hit messages on their way.
void World::consider_endings(int rank) {
  const auto is_due = [&](const Scenario::Ending& ending) {
    return ending.rank == rank && ending.after == ranks_[rank].submissions;
  };
  const auto soon = [&] { return now_ + random_.below(int64_t{10} * scenario_.longest_delay); };
  if (is_due(scenario_.shutdown)) schedule(Kind::kShutdown, -1, rank, soon());
  for (const auto& death : scenario_.deaths) {
    if (is_due(death)) schedule(Kind::kDeath, -1, rank, soon());
  }
}

void World::end_job(int rank) {
  if (ranks_[rank].ended) return;
  if (traces_) note(0, rank, "ends the job");
  is_ended_ = true;
  ranks_[rank].submits = false;
  sets_[0].members[rank].negotiator->request_shutdown(
      aborted(fmt::format("rank {} was shut down", rank)));
  speak_soon(0, rank);
}

void World::die(int rank) {
  if (ranks_[rank].ended) return;
  if (traces_) note(0, rank, "dies");
  a_rank_died_ = true;
  ranks_[rank].ended = true;
  for (int other = 0; other < scenario_.ranks; ++other) {
    if (other != rank) schedule(Kind::kFailure, -1, other, later(other));
  }
}

// Messages and plans -----------------------------------------------------------------------------

void World::speak_soon(int set, int member) {
  Member& self = sets_[set].members[member];
  if (self.speak_is_due) return;
  self.speak_is_due = true;
  const bool at_once = random_.chance(scenario_.at_once_percent);
  schedule(Kind::kSpeak, set, member, at_once ? now_ : later(sets_[set].scenario.members[member]));
}

Status World::speak(int set, int member) {
  Member& self = sets_[set].members[member];
  if (self.negotiator->can_decide() && !self.ending) HVD_TRY(decide(set, member));
  return self.negotiator->flush([&](int to, ConstBytes message, Urgency) {
    send(set, member, to, message);
    return Status::ok();
  });
}

Status World::decide(int set, int member) {
  const SetScenario& what = sets_[set].scenario;
  Member& self = sets_[set].members[member];
  const bool closes = self.round.epoch == what.epochs;
  if (!closes && random_.chance(what.tunables_percent)) {
    const auto capacity = random_.pick<uint32_t>({0, 1, 2, 5, 1024});
    self.negotiator->set_tunables(Encoder().put(capacity).take());
  }
  const bool knew_of_joins = self.negotiator->any_rank_joined();
  self.negotiator->decide();
  Plan plan;
  if (!self.negotiator->next_plan(plan)) return internal_error("deciding made no plan");
  if (traces_) note(set, member, "decides" + summary(plan));
  HVD_TRY(sets_[set].judge.decided(plan, knew_of_joins));
  take_plan(set, member, std::move(plan));
  return Status::ok();
}

void World::send(int set, int from, int to, ConstBytes message) {
  Member& self = sets_[set].members[from];
  const bool up = to == self.parent;
  Edge& edge = up ? self.up : sets_[set].members[to].down;
  edge.messages.emplace_back(message.begin(), message.end());
  edge.last = std::max(edge.last, later(sets_[set].scenario.members[from]));
  schedule(up ? Kind::kUp : Kind::kDown, set, up ? from : to, edge.last);
}

Status World::receive(int set, int to, int from, Edge& edge) {
  const ByteBuffer message = std::move(edge.messages.front());
  edge.messages.pop_front();
  if (rank_of(set, to).ended) return Status::ok();
  if (traces_) note(set, to, fmt::format("hears rank {}", sets_[set].scenario.members[from]));
  Negotiator& negotiator = *sets_[set].members[to].negotiator;
  HVD_TRY(negotiator.receive(from, message));
  Plan plan;
  while (negotiator.next_plan(plan)) take_plan(set, to, std::move(plan));
  speak_soon(set, to);
  return Status::ok();
}

void World::take_plan(int set, int member, Plan plan) {
  Member& self = sets_[set].members[member];
  if (!plan.tunables.empty()) {
    uint32_t capacity = 0;
    HVD_CHECK(Decoder(plan.tunables).get(capacity).is_ok());
    self.negotiator->set_cache_capacity(capacity);
  }
  if (!plan.shutdown.is_ok()) self.ending = true;
  self.plans.push_back(std::move(plan));
  schedule(Kind::kCarryOut, set, member, later(sets_[set].scenario.members[member]));
}

Status World::carry_out(int set, int member) {
  Member& self = sets_[set].members[member];
  const Plan plan = std::move(self.plans.front());
  self.plans.pop_front();
  if (traces_) note(set, member, "carries out" + summary(plan));
  HVD_TRY(sets_[set].judge.carried_out(member, plan));
  if (!plan.shutdown.is_ok()) {
    HVD_TRY(speak(set, member));  // its last messages
    rank_of(set, member).ended = true;
    return Status::ok();
  }
  if (!self.act_is_due) {
    self.act_is_due = true;
    schedule(Kind::kAct, set, member, later(sets_[set].scenario.members[member]));
  }
  return Status::ok();
}

// The end ----------------------------------------------------------------------------------------

Status World::check_end() const {
  for (size_t i = 0; i < sets_.size(); ++i) {
    const Set& set = sets_[i];
    for (int member = 0; member < set.scenario.size(); ++member) {
      const int rank = set.scenario.members[member];
      const Rank& self = ranks_[rank];
      const auto wrong = [&](std::string_view what) {
        return internal_error(fmt::format("set {}, rank {} {}; it waits for{}", i, rank, what,
                                          set.judge.waiting_list(member)));
      };
      if (a_rank_died_ || is_ended_) {
        if (!self.ended) return wrong("has not ended with the job");
        if (i == 0 && !a_rank_died_ && !set.judge.is_up_to_date(member)) {
          return wrong("has missed a plan");
        }
        continue;
      }
      if (!is_at_end(set, set.members[member])) return wrong("has not finished its program");
      if (set.judge.is_waiting(member)) return wrong("waits forever");
      if (!set.judge.is_up_to_date(member)) return wrong("has missed a plan");
      HVD_TRY(check_settled(set, member));
    }
  }
  return Status::ok();
}

Status World::check_settled(const Set& set, int member) const {
  const Negotiator& negotiator = *set.members[member].negotiator;
  const auto wrong = [&](std::string_view what) {
    return internal_error(fmt::format("rank {} {}", set.scenario.members[member], what));
  };
  if (negotiator.waiting() != 0) return wrong("keeps tensors that were answered");
  if (negotiator.retired() != 0)
    return wrong("keeps retired numbers that no rank can use any more");
  const ResponseCache& expected = set.members[0].negotiator->cache();
  const ResponseCache& cache = negotiator.cache();
  if (cache.size() != expected.size() || cache.capacity() != expected.capacity()) {
    return wrong("has another cache than the coordinator");
  }
  for (int name = 0; name <= set.scenario.names; ++name) {
    const auto* known = expected.find(set.scenario.name_of(name));
    const auto* entry = cache.find(set.scenario.name_of(name));
    if ((known == nullptr) != (entry == nullptr) || (known != nullptr && known->id != entry->id)) {
      return wrong("has other numbers than the coordinator");
    }
  }
  return Status::ok();
}

void World::note(int set, int member, const std::string& text) {
  if (trace_.size() == kTraceLines) trace_.pop_front();
  trace_.push_back(fmt::format("{:>8} set {} rank {}: {}", now_, set,
                               sets_[set].scenario.members[member], text));
}

}  // namespace hvd::simulator
