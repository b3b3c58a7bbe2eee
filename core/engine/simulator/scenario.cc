// SPDX-License-Identifier: Apache-2.0
#include "engine/simulator/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/simulator/random.h"

namespace hvd::simulator {
namespace {

// Keys of choices, so that no two choices use the same sequence.
enum Choice : uint64_t { kSteps = 1, kNames, kOrder, kUsual, kShape, kRows, kCulprits, kOdd, kSet };

uint64_t key(Round round) { return static_cast<uint64_t>(round.epoch) << 32 | round.step; }

int ranks_of(Random& random) {
  const int64_t size = random.below(1000);
  if (size < 2) return random.between(257, 1024);
  if (size < 15) return random.between(64, 256);
  if (size < 80) return random.between(17, 63);
  return random.between(1, 16);
}

// Blocks of ranks, as launchers place them, or any ranks anywhere.
std::vector<int> hosts_of(int ranks, Random& random) {
  std::vector<int> host_of;
  const int most = random.pick({1, 2, 4, 8, 20, 1024});
  for (int host = 0; static_cast<int>(host_of.size()) < ranks; ++host) {
    host_of.insert(host_of.end(), random.between(1, most), host);
  }
  host_of.resize(ranks);
  if (random.chance(20)) random.shuffle(host_of);
  return host_of;
}

SetScenario a_set(uint64_t seed, std::vector<int> members, const std::vector<int>& host_of) {
  SetScenario set;
  set.seed = seed;
  for (const int rank : members) set.host_of.push_back(host_of[rank]);
  set.members = std::move(members);
  Random random(seed, {kSet});
  const bool large = set.size() > 63;
  set.names = random.between(1, large ? 4 : 8);
  set.joins = random.chance(35);
  set.epochs = set.joins && !large ? random.between(1, 3) : 1;
  set.steps = random.between(1, large ? 3 : 6);
  set.reductions = random.chance(set.joins ? 60 : 20);
  set.groups = random.chance(30);
  set.groups_matter = set.groups && random.chance(70);
  set.same_order = random.chance(20);
  set.waits = random.chance(50);
  set.change_every = random.pick({1, 2, 3, 100});
  set.mismatch_percent = random.pick({0, 0, 2, 20});
  set.cache_capacity = random.pick<size_t>({0, 1, 2, 5, 1024, 1024});
  set.tunables_percent = random.pick({0, 0, 10, 50});
  return set;
}

Scenario::Ending an_ending(const Scenario& scenario, Random& random) {
  const SetScenario& all = scenario.sets.front();
  return {static_cast<int>(random.below(scenario.ranks)),
          static_cast<int>(random.below(int64_t{all.epochs} * all.steps * all.names + 2))};
}

}  // namespace

Scenario Scenario::of(uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.ranks = ranks_of(random);
  const std::vector<int> host_of = hosts_of(scenario.ranks, random);
  const int sets = random.chance(30) ? random.between(2, 4) : 1;
  for (int set = 0; set < sets; ++set) {
    const int share = set == 0 ? 100 : random.between(10, 100);
    std::vector<int> members;
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      if (random.chance(share)) members.push_back(rank);
    }
    if (!members.empty()) {
      scenario.sets.push_back(a_set(random.next(), std::move(members), host_of));
    }
  }
  scenario.longest_delay = random.pick({1, 10, 100, 1000});
  scenario.slow_percent = random.pick({0, 10, 50});
  scenario.at_once_percent = random.pick({0, 50, 100});
  scenario.longest_burst = random.pick({1, 3, 100});
  if (random.chance(15)) scenario.shutdown = an_ending(scenario, random);
  if (random.chance(15)) {
    for (int deaths = random.between(1, 2); deaths > 0; --deaths) {
      scenario.deaths.push_back(an_ending(scenario, random));
    }
  }
  return scenario;
}

std::string Scenario::to_string() const {
  std::string text = fmt::format("seed {}: {} ranks, delays up to {}", seed, ranks, longest_delay);
  if (shutdown.rank != kNone) text += fmt::format(", rank {} ends the job", shutdown.rank);
  for (const Ending& death : deaths) text += fmt::format(", rank {} dies", death.rank);
  for (const SetScenario& set : sets) {
    text += fmt::format(
        "\n  {} ranks on {} hosts, {} names, {} x {} steps{}{}{}, mismatches {} %, cache {}, "
        "tunables {} %",
        set.size(), *std::max_element(set.host_of.begin(), set.host_of.end()) + 1, set.names,
        set.epochs, set.steps, set.joins ? ", joins" : "", set.groups ? ", groups" : "",
        set.groups_matter ? " that matter" : "", set.mismatch_percent, set.cache_capacity,
        set.tunables_percent);
  }
  return text;
}

std::string SetScenario::name_of(int name) const {
  return name == closing_name() ? "closing" : "t" + std::to_string(name);
}

int SetScenario::steps_of(int member, int epoch) const {
  if (!joins) return steps;
  Random random(seed, {kSteps, static_cast<uint64_t>(epoch), static_cast<uint64_t>(member)});
  return std::max(0, steps - random.pick({0, 0, 1, 3}));
}

std::vector<Submission> SetScenario::submissions(int member, Round round) const {
  std::vector<Submission> result;
  if (round.epoch >= epochs) return {{{closing_name()}, 0}};
  Random shared(seed, {kNames, key(round)});
  std::vector<int> chosen;
  const int share = shared.pick({30, 70, 100, 100});
  for (int name = 0; name < names; ++name) {
    if (shared.chance(share)) chosen.push_back(name);
  }
  shared.shuffle(chosen);
  uint32_t group = 0;
  for (size_t begin = 0; begin < chosen.size();) {
    const size_t most = chosen.size() - begin;
    const size_t count = groups ? std::min<size_t>(most, 1 + shared.below(4)) : 1;
    Submission& submission = result.emplace_back();
    submission.names.assign(chosen.begin() + begin, chosen.begin() + begin + count);
    if (count > 1) submission.group = ++group;
    begin += count;
  }
  if (!same_order) {
    Random own(seed, {kOrder, key(round), static_cast<uint64_t>(member)});
    own.shuffle(result);
  }
  return result;
}

Request SetScenario::usual_request(int name, Round round) const {
  Random random(seed, {kUsual, static_cast<uint64_t>(name)});
  Request request;
  request.name = name_of(name);
  request.type = static_cast<RequestType>(random.below(kRequestTypeCount));
  if (reductions || name == closing_name() || random.chance(40)) {
    request.type = random.chance(80) ? RequestType::kAllreduce : RequestType::kAdasum;
  }
  if (request.type == RequestType::kBarrier) return request;
  request.dtype = static_cast<DType>(random.below(kDTypeCount));
  request.op = random.pick({ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax});
  request.prescale = random.pick({1.0, 0.5});
  if (request.type == RequestType::kBroadcast) {
    request.root = members[random.below(size())];
  }
  const uint64_t rounds = name == closing_name() ? 0 : round.epoch * steps + round.step;
  const uint64_t era = rounds / change_every;
  Random shapes(seed, {kShape, static_cast<uint64_t>(name), era});
  // Without a first dimension some operations are refused.
  for (int left = random.chance(10) ? 0 : random.between(1, 3); left > 0; --left) {
    request.shape.push_back(1 + shapes.below(2));
  }
  return request;
}

bool SetScenario::differs(int member, int name, Round round) const {
  if (name == closing_name()) return false;
  Random random(seed, {kCulprits, key(round), static_cast<uint64_t>(name)});
  if (!random.chance(mismatch_percent)) return false;
  if (random.chance(60)) return member == random.below(size());
  const int share = random.between(1, 99);
  return Random(random.next(), {static_cast<uint64_t>(member)}).chance(share);
}

Request SetScenario::request(int member, int name, Round round) const {
  Request request = usual_request(name, round);
  const auto member_key = static_cast<uint64_t>(member);
  if (has_free_first_dimension(request.type) && !request.shape.empty()) {
    const uint64_t era = (round.epoch * steps + round.step) / (change_every * 2);
    Random rows(seed, {kRows, static_cast<uint64_t>(name), member_key, era});
    request.shape.front() = rows.below(5);
  }
  if (!differs(member, name, round)) return request;
  Random odd(seed, {kOdd, key(round), static_cast<uint64_t>(name), member_key});
  switch (odd.below(8)) {
    case 0: request.dtype = static_cast<DType>(odd.below(kDTypeCount)); break;
    case 1: request.type = static_cast<RequestType>(odd.below(kRequestTypeCount)); break;
    case 2: request.shape.push_back(3); break;
    case 3: request.shape.clear(); break;
    case 4: request.op = ReduceOp::kMin; break;
    case 5: request.postscale = 0.25; break;
    case 6: request.root += 1; break;
    default: request.device = static_cast<int32_t>(odd.below(2)); break;
  }
  return request;
}

}  // namespace hvd::simulator
