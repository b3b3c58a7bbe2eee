// SPDX-License-Identifier: Apache-2.0
// Finds good values for settings while a job runs: tries some, scores them by the speed of the
// batches that were executed, and in the end keeps the best. Runs on rank 0 alone. A state machine
// without clock and files: the caller says what happened when, and spreads the values it returns.
//
// The order: some samples thrown away, one of the initial values, a Bayesian search over fusion
// threshold and cycle time together, then one switch after the other. What the user has set is left
// alone, as is what makes no difference on this job's hosts. The initial values are scored like any
// others, so that tuning cannot end with something that was measured to be slower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "engine/autotune/bayesian_search.h"
#include "engine/autotune/sampler.h"
#include "engine/autotune/tunables.h"
#include "transport/topology.h"

namespace hvd {

struct AutotuneOptions {
  int warmup_samples = 3;
  int steps_per_sample = 10;
  int most_samples = 20;  // of the search, besides that of the initial values
  double noise = 0.8;     // variance of a score, as a share of the variance of all

  // What may be changed.
  bool fusion_threshold = true;
  bool cycle_time = true;
  bool hierarchical_allreduce = true;
  bool hierarchical_allgather = true;
  bool cache = true;
  // What to try besides the initial values; without any they stay.
  std::vector<AllreduceAlgorithm> algorithms;
  std::vector<size_t> chunk_sizes;
};

// `share_memory`: Transport::hosts_share_memory().
AutotuneOptions autotune_options(const Config& config, const Topology& topology, bool share_memory);

class Autotuner {
 public:
  // The rows' first line. The first seven columns are what readers of such files know; algorithm
  // and chunk size stand behind them, where those readers do not look. There is no torus here: its
  // column is always 0.
  static constexpr char kHeader[] =
      "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
      "tensor_fusion_threshold,score,algorithm,chunk_bytes";

  // The job already runs with `initial`.
  Autotuner(AutotuneOptions options, const Tunables& initial);

  // One executed batch; the arguments are Sampler::record's. Returns values to go on with when they
  // are others than before: those to try next, or in the end the best.
  std::optional<Tunables> record(std::span<const uint64_t> tensors, int64_t bytes, int64_t now_us);

  bool done() const { return done_; }
  const Tunables& current() const { return current_; }
  // The best so far; the initial values while nothing has a score.
  const Tunables& best() const { return best_; }

  // One row of CSV per score since the last call, without line ends. After the last score there is
  // one more, which repeats the best.
  std::vector<std::string> take_rows();

 private:
  // One of the switches that are tried in turn.
  struct Change {
    enum class Kind { kHierarchicalAllreduce, kHierarchicalAllgather, kAlgorithm, kChunk, kCache };
    Kind kind;
    AllreduceAlgorithm algorithm = AllreduceAlgorithm::kAuto;
    size_t chunk_bytes = 0;

    // False when it would change nothing.
    bool apply(Tunables& tunables) const;
  };

  static std::vector<Change> changes_for(const AutotuneOptions& options);
  Point to_point(const Tunables& tunables) const;
  Tunables at_point(const Point& point) const;
  std::vector<Point> first_points() const;
  int dimensions() const {
    return (options_.fusion_threshold ? 1 : 0) + (options_.cycle_time ? 1 : 0);
  }

  void take_score(double score);
  void choose_next();

  const AutotuneOptions options_;
  const std::vector<Change> changes_;
  Tunables current_;
  Tunables best_;
  std::optional<double> best_score_;
  Sampler sampler_;
  std::optional<BayesianSearch> search_;  // none when both of its settings are fixed
  int warmups_left_;
  size_t next_change_ = 0;
  bool done_ = false;
  std::vector<std::string> rows_;
};

}  // namespace hvd
