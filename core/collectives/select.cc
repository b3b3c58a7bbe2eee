// SPDX-License-Identifier: Apache-2.0
#include "collectives/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

namespace hvd {
namespace {

struct Name {
  AllreduceAlgorithm algorithm;
  std::string_view name;
};
constexpr Name kNames[] = {
    {AllreduceAlgorithm::kAuto, "auto"},
    {AllreduceAlgorithm::kSharedMemory, "shared_memory"},
    {AllreduceAlgorithm::kRecursiveDoubling, "recursive_doubling"},
    {AllreduceAlgorithm::kRing, "ring"},
    {AllreduceAlgorithm::kHalvingDoubling, "halving_doubling"},
    {AllreduceAlgorithm::kTwoLevel, "two_level"},
};

// Cost of a round in which each of the first `ranks` ranks sends to `to(rank)`. The round is as
// slow as the host from which the most ranks send to other hosts at the same time, because they
// share its link.
template <typename To>
Cost round_cost(const Topology& topology, int ranks, const CostModel& model, To to) {
  std::vector<int> leaving(topology.hosts(), 0);
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int host = topology.host_of(rank);
    if (topology.host_of(to(rank)) != host) most = std::max(most, ++leaving[host]);
  }
  if (most == 0) return {model.within_host.latency_us, 1 / model.within_host.bytes_per_us};
  return {model.between_hosts.latency_us, most / model.between_hosts.bytes_per_us};
}

// Cost of both algorithms for powers of two. `all_data`: recursive doubling, in which every round
// carries the whole buffer. Otherwise halving-doubling, in which the rounds at `distance` (one of
// each phase) carry distance/ranks of the buffer.
Cost doubling_cost(const Topology& topology, const CostModel& model, bool all_data) {
  const int ranks = static_cast<int>(std::bit_floor(static_cast<unsigned>(topology.size())));
  const int folded = topology.size() - ranks;
  const double combine = 1 / model.combine_bytes_per_us;
  Cost total;
  const auto add = [&](const Cost& round, int times, double share) {
    total.fixed_us += times * round.fixed_us;
    total.us_per_byte += share * (times * round.us_per_byte + combine);
  };
  for (int distance = ranks / 2; distance > 0; distance /= 2) {
    const Cost round =
        round_cost(topology, ranks, model, [distance](int rank) { return rank ^ distance; });
    add(round, all_data ? 1 : 2, all_data ? 1.0 : static_cast<double>(distance) / ranks);
  }
  if (folded > 0) {
    add(round_cost(topology, folded, model, [ranks](int rank) { return rank + ranks; }), 2, 1.0);
  }
  return total;
}

// The ring enters and leaves each host once. Ranks add while segments are in flight, so in the
// reduce-scatter phase the slower of sending and adding counts.
Cost ring_cost(const Topology& topology, const CostModel& model) {
  const int n = topology.size();
  const int crossings = topology.hosts() > 1 ? topology.hosts() : 0;
  const double share = static_cast<double>(n - 1) / n;
  const double send =
      1 / (crossings > 0 ? model.between_hosts.bytes_per_us : model.within_host.bytes_per_us);
  Cost total;
  total.fixed_us =
      2 * share *
      (crossings * model.between_hosts.latency_us + (n - crossings) * model.within_host.latency_us);
  total.us_per_byte = share * (send + std::max(send, 1 / model.combine_bytes_per_us));
  return total;
}

// Two rounds of progress words, and a time per byte that grows with the ranks, because they share
// the memory bandwidth. Measured on two cores: 64 MiB take 7.8 ms with 2 ranks and 16.7 ms with 4.
Cost shared_memory_cost(int ranks, const CostModel& model) {
  return {2 * model.within_host.latency_us, ranks / (2 * model.within_host.bytes_per_us)};
}

// Shared memory within the host, plus one rank per host between hosts: the latencies of recursive
// doubling, which small data uses, and the traffic of halving-doubling or the ring, which large
// data uses. A lower bound for sizes between them.
Cost two_level_cost(const Topology& topology, const CostModel& model) {
  std::vector<int> one_each(topology.hosts());
  std::iota(one_each.begin(), one_each.end(), 0);
  const Topology leaders(one_each);
  const Cost inside = shared_memory_cost(topology.largest_host(), model);
  const Cost few_rounds = doubling_cost(leaders, model, /*all_data=*/true);
  const Cost halving = doubling_cost(leaders, model, /*all_data=*/false);
  const Cost ring = ring_cost(leaders, model);
  return {inside.fixed_us + few_rounds.fixed_us,
          inside.us_per_byte + std::min(halving.us_per_byte, ring.us_per_byte)};
}

// Ok when the placement of the ranks allows `algorithm`.
Status possible(AllreduceAlgorithm algorithm, const Topology& topology, bool share_memory) {
  if (algorithm == AllreduceAlgorithm::kSharedMemory && (topology.hosts() > 1 || !share_memory)) {
    return precondition(fmt::format(
        "allreduce algorithm shared_memory: needs all ranks on one host with shared memory, but "
        "there are {} ranks on {} host(s){}; choose another one or auto",
        topology.size(), topology.hosts(), share_memory ? "" : " without shared memory"));
  }
  if (algorithm == AllreduceAlgorithm::kTwoLevel &&
      (topology.hosts() == 1 || topology.largest_host() == 1 || !share_memory)) {
    return precondition(fmt::format(
        "allreduce algorithm two_level: needs several hosts with several ranks and shared memory, "
        "but there are {} ranks on {} host(s){}; choose another one or auto",
        topology.size(), topology.hosts(), share_memory ? "" : " without shared memory"));
  }
  return Status::ok();
}

bool contains(std::span<const AllreduceAlgorithm> offered, AllreduceAlgorithm algorithm) {
  return std::find(offered.begin(), offered.end(), algorithm) != offered.end();
}

// A ring adds the values of an element in an order that depends on the chunk that contains it.
bool is_deterministic(AllreduceAlgorithm algorithm) {
  return algorithm != AllreduceAlgorithm::kRing;
}

// The candidates that are compared by cost. Shared memory was measured to be quickest at every
// size, so where it is possible it is the only one.
//
// In deterministic mode the choice must not show in the bits, because fusion changes sizes. Two
// levels add in another order than recursive doubling and halving-doubling, which add in the same
// order. So two levels is the only candidate where it is possible, and the other two are candidates
// elsewhere.
std::vector<AllreduceAlgorithm> worth_comparing(const Topology& topology, bool share_memory,
                                                bool deterministic,
                                                std::span<const AllreduceAlgorithm> offered) {
  using enum AllreduceAlgorithm;
  std::vector<AllreduceAlgorithm> result;
  const auto add = [&](AllreduceAlgorithm algorithm) {
    if (contains(offered, algorithm) && possible(algorithm, topology, share_memory).is_ok()) {
      result.push_back(algorithm);
    }
  };
  add(kSharedMemory);
  if (deterministic) add(kTwoLevel);
  if (!result.empty()) return result;
  add(kRecursiveDoubling);
  add(kHalvingDoubling);
  if (deterministic) return result;
  add(kRing);
  add(kTwoLevel);
  return result;
}

}  // namespace

std::string_view to_string(AllreduceAlgorithm algorithm) {
  for (const Name& known : kNames) {
    if (known.algorithm == algorithm) return known.name;
  }
  return "unknown algorithm";
}

Result<AllreduceAlgorithm> parse_allreduce_algorithm(std::string_view name) {
  std::string accepted;
  for (const Name& known : kNames) {
    if (known.name == name) return known.algorithm;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", known.name);
  }
  return invalid_argument(
      fmt::format("allreduce algorithm \"{}\" is unknown: use one of {}", name, accepted));
}

Cost estimate(AllreduceAlgorithm algorithm, const Topology& topology, const CostModel& model) {
  switch (algorithm) {
    case AllreduceAlgorithm::kSharedMemory: return shared_memory_cost(topology.size(), model);
    case AllreduceAlgorithm::kRecursiveDoubling: return doubling_cost(topology, model, true);
    case AllreduceAlgorithm::kHalvingDoubling: return doubling_cost(topology, model, false);
    case AllreduceAlgorithm::kRing: return ring_cost(topology, model);
    case AllreduceAlgorithm::kTwoLevel: return two_level_cost(topology, model);
    case AllreduceAlgorithm::kAuto: break;
  }
  check_failed(__FILE__, __LINE__, "estimate of no particular algorithm");
}

Result<AllreduceSelector> AllreduceSelector::make(const Topology& topology, bool share_memory,
                                                  const AllreduceOptions& options,
                                                  std::span<const AllreduceAlgorithm> offered) {
  AllreduceSelector selector;
  // A single rank exchanges nothing, so it accepts every algorithm whatever placement that needs.
  if (options.algorithm != AllreduceAlgorithm::kAuto && topology.size() > 1) {
    HVD_TRY(possible(options.algorithm, topology, share_memory));
    if (!contains(offered, options.algorithm)) {
      return unavailable(fmt::format("allreduce algorithm {} is not in this build: choose auto",
                                     to_string(options.algorithm)));
    }
    if (options.deterministic && !is_deterministic(options.algorithm)) {
      return precondition(
          fmt::format("allreduce algorithm {} is not deterministic: choose recursive_doubling, "
                      "halving_doubling or auto, or unset HOROVOD_DETERMINISTIC",
                      to_string(options.algorithm)));
    }
    selector.candidates_[selector.count_++] = {options.algorithm, {}};
    return selector;
  }
  for (const auto algorithm :
       worth_comparing(topology, share_memory, options.deterministic, offered)) {
    selector.candidates_[selector.count_++] = {algorithm,
                                               estimate(algorithm, topology, options.model)};
  }
  HVD_CHECK(selector.count_ > 0);
  return selector;
}

AllreduceAlgorithm AllreduceSelector::choose(size_t bytes) const {
  const Candidate* best = &candidates_[0];
  for (int i = 1; i < count_; ++i) {
    if (candidates_[i].cost.at(bytes) < best->cost.at(bytes)) best = &candidates_[i];
  }
  return best->algorithm;
}

}  // namespace hvd
