// SPDX-License-Identifier: Apache-2.0
// Finds good values for settings while a job runs: tries values, scores them by the speed of the
// batches that were carried out, and finally keeps the best. Runs only at the coordinator of the
// global process set. A state machine without clock and files: the caller passes batches and times,
// and distributes the values that it returns.
//
//   warm-up samples (discarded) -> initial values -> Bayesian search over fusion threshold and
//   cycle time together -> one switch after the other -> best values, done
//
// Settings that the user has set are not changed, nor settings without effect on the hosts of this
// job. The initial values are scored like all other values, so tuning cannot end with values that
// were measured to be slower.
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
  int most_samples = 20;  // of the search, in addition to that of the initial values
  double noise = 0.8;     // variance of one score divided by the variance of all scores

  // Settings that may be changed.
  bool fusion_threshold = true;
  bool cycle_time = true;
  bool hierarchical_allreduce = true;
  bool hierarchical_allgather = true;
  bool cache = true;
  // Values to try in addition to the initial ones; empty: the initial values stay.
  std::vector<AllreduceAlgorithm> algorithms;
  std::vector<size_t> chunk_sizes;
};

// `share_memory`: Transport::hosts_share_memory().
AutotuneOptions autotune_options(const Config& config, const Topology& topology, bool share_memory);

class Autotuner {
 public:
  // The first line of the log. Existing readers of such files expect the first seven columns;
  // algorithm and chunk size follow, where those readers do not look. There is no torus algorithm:
  // its column is always 0.
  static constexpr char kHeader[] =
      "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
      "tensor_fusion_threshold,score,algorithm,chunk_bytes";

  // The job already runs with `initial`.
  Autotuner(AutotuneOptions options, const Tunables& initial);

  // One batch that was carried out; the arguments are those of Sampler::record. Returns new values
  // when the job has to change them: the next to try, or finally the best.
  std::optional<Tunables> record(std::span<const uint64_t> tensors, int64_t bytes, int64_t now_us);

  bool done() const { return done_; }
  const Tunables& current() const { return current_; }
  // The best so far; the initial values before the first score.
  const Tunables& best() const { return best_; }

  // One row of CSV for each score since the last call, without line ends. After the last score
  // there is one more row, which repeats the best.
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
