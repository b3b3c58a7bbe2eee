// SPDX-License-Identifier: Apache-2.0
#include "collectives/calibrate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/allreduce/allreduce.h"
#include "collectives/reduction.h"

namespace hvd {
namespace {

constexpr int kPings = 20;
constexpr int kBursts = 3;
constexpr size_t kBurstBytes = 256 << 10;  // 2 ms at 1 Gbit/s

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// The quickest of `times` sends of `out` from `first` to `second`, answered by one byte. Only the
// first rank of the pair learns it. The quickest, because everything that disturbs adds time.
Result<double> quickest_answer(Transport& transport, std::pair<int, int> pair, Bytes out, int times,
                               Deadline deadline) {
  std::byte answer{};
  double best = 0;
  for (int i = 0; i < times; ++i) {
    if (transport.rank() == pair.second) {
      HVD_TRY(transport.recv(pair.first, out, deadline));
      HVD_TRY(transport.send(pair.first, {&answer, 1}, deadline));
      HVD_TRY(transport.flush(deadline));
      continue;
    }
    const auto start = Clock::now();
    HVD_TRY(transport.send(pair.second, out, deadline));
    HVD_TRY(transport.recv(pair.second, {&answer, 1}, deadline));
    const double took = microseconds_since(start);
    best = i == 0 ? took : std::min(best, took);
  }
  return best;
}

Result<LinkCost> measure_link(Transport& transport, std::pair<int, int> pair, Deadline deadline) {
  std::vector<std::byte> burst(kBurstBytes);
  HVD_TRY_ASSIGN(const double ping,
                 quickest_answer(transport, pair, Bytes(burst).first(1), kPings, deadline));
  HVD_TRY_ASSIGN(const double loaded, quickest_answer(transport, pair, burst, kBursts, deadline));
  // A burst that took little longer than a ping says only that the link is fast.
  return LinkCost{ping / 2, kBurstBytes / std::max(loaded - ping, loaded / 8)};
}

double measure_combine() {
  const auto sum = Reduction::make(ReduceOp::kSum, DType::kFloat32, 1);
  std::vector<std::byte> into(kBurstBytes);
  const std::vector<std::byte> from(kBurstBytes);
  double best = 0;
  for (int i = 0; i < kBursts; ++i) {
    const auto start = Clock::now();
    sum->combine(into, from);
    const double took = std::max(microseconds_since(start), 0.1);
    best = i == 0 ? took : std::min(best, took);
  }
  return kBurstBytes / best;
}

// The lowest two ranks on different hosts, or on the same one.
std::optional<std::pair<int, int>> find_pair(const Topology& topology, bool same_host) {
  if (!same_host) {
    if (topology.hosts() < 2) return std::nullopt;
    return std::pair(topology.ranks_on(0)[0], topology.ranks_on(1)[0]);
  }
  for (int host = 0; host < topology.hosts(); ++host) {
    const auto& ranks = topology.ranks_on(host);
    if (ranks.size() > 1) return std::pair(ranks[0], ranks[1]);
  }
  return std::nullopt;
}

}  // namespace

Result<CostModel> calibrate(Transport& transport, Deadline deadline) {
  // Everybody adds what it measured to zeros; each figure is measured by one rank alone.
  CostModel defaults;
  double figures[5] = {};
  const auto measure = [&](bool same_host, double* into, const LinkCost& unknown) -> Status {
    const auto pair = find_pair(transport.topology(), same_host);
    LinkCost link = unknown;
    if (pair && (transport.rank() == pair->first || transport.rank() == pair->second)) {
      HVD_TRY_ASSIGN(link, measure_link(transport, *pair, deadline));
    }
    if (transport.rank() == (pair ? pair->first : 0)) {
      into[0] = link.latency_us;
      into[1] = link.bytes_per_us;
    }
    return Status::ok();
  };
  HVD_TRY(measure(/*same_host=*/false, figures, defaults.between_hosts));
  HVD_TRY(measure(/*same_host=*/true, figures + 2, defaults.within_host));
  if (transport.rank() == 0) figures[4] = measure_combine();

  HVD_TRY_ASSIGN(const Reduction sum,
                 Reduction::make(ReduceOp::kSum, DType::kFloat64, transport.size()));
  Scratch scratch;
  HVD_TRY(recursive_doubling_allreduce({transport, scratch, deadline},
                                       std::as_writable_bytes(std::span(figures)), sum));
  return CostModel{{figures[0], figures[1]}, {figures[2], figures[3]}, figures[4]};
}

}  // namespace hvd
