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

constexpr int kPings = 20;                 // round trips of 1 byte, for the latency
constexpr int kBursts = 3;                 // for the bandwidth
constexpr size_t kBurstBytes = 256 << 10;  // 2 ms at 1 Gbit/s

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Microseconds of the quickest of `times` round trips: `first` sends `out` to `second`, which
// answers with one byte. The quickest, because a disturbance can only add time. The second rank of
// the pair gets 0.
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
  // A burst that took hardly longer than a ping gives no bandwidth: the difference is noise. At
  // least 1/8 of its time counts as transfer.
  return LinkCost{ping / 2, kBurstBytes / std::max(loaded - ping, loaded / 8)};
}

// Bytes of float32 per microsecond that this rank adds. The arrays stay in the outer caches.
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

// The two lowest ranks on different hosts, or on the same host.
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
  // Exactly one rank measures each figure and the other ranks hold 0 for it, so that the sum below
  // gives every rank the same bits.
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
