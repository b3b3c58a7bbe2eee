// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/autotuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "collectives/allreduce/allreduce.h"

namespace hvd {
namespace {

// The square that is searched. Its coordinates are square roots: 1 ms makes a difference at 2 ms
// and none at 90 ms.
constexpr double kMostMegabytes = 64;
constexpr double kMostMilliseconds = 100;
constexpr double kMegabyte = 1 << 20;

double to_unit(double value, double most) { return std::sqrt(value / most); }
double from_unit(double unit, double most) { return unit * unit * most; }

bool possible(AllreduceAlgorithm algorithm, const Topology& topology, bool share_memory) {
  AllreduceOptions options;
  options.algorithm = algorithm;
  return AllreduceSelector::make(topology, share_memory, options, offered_allreduce_algorithms())
      .is_ok();
}

std::string row(const Tunables& tunables, double score) {
  return fmt::format("{:d},{:d},0,{:d},{},{},{},{},{}", tunables.hierarchical_allreduce,
                     tunables.hierarchical_allgather, tunables.cache_enabled,
                     tunables.cycle_time_ms, tunables.fusion_threshold, score,
                     to_string(tunables.algorithm), tunables.chunk_bytes);
}

}  // namespace

AutotuneOptions autotune_options(const Config& config, const Topology& topology,
                                 bool share_memory) {
  using enum AllreduceAlgorithm;
  AutotuneOptions options;
  options.warmup_samples = config.autotune_warmup_samples;
  options.steps_per_sample = config.autotune_steps_per_sample;
  options.most_samples = config.autotune_bayes_opt_max_samples;
  options.noise = config.autotune_gaussian_process_noise;

  const auto is_free = [&](const char* variable) { return !config.was_given(variable); };
  options.fusion_threshold = is_free("HOROVOD_FUSION_THRESHOLD");
  options.cycle_time = is_free("HOROVOD_CYCLE_TIME");
  options.cache = is_free("HOROVOD_CACHE_CAPACITY");

  const bool several_hosts = topology.hosts() > 1;
  const bool two_levels = topology.size() > 1 && possible(kTwoLevel, topology, share_memory);
  options.hierarchical_allgather = two_levels && is_free("HOROVOD_HIERARCHICAL_ALLGATHER");
  // Another algorithm may add in another order, and deterministic mode forbids that.
  const bool algorithm_is_free = is_free("HOROVOD_ALLREDUCE_ALGORITHM") &&
                                 is_free("HOROVOD_HIERARCHICAL_ALLREDUCE") && !config.deterministic;
  options.hierarchical_allreduce = two_levels && algorithm_is_free;
  // On one host, shared memory was measured to be quickest at every size.
  if (algorithm_is_free && (several_hosts || !share_memory) && topology.size() > 1) {
    for (const auto algorithm : offered_allreduce_algorithms()) {
      // Two levels are tried as hierarchical_allreduce.
      if (algorithm != kTwoLevel && possible(algorithm, topology, share_memory)) {
        options.algorithms.push_back(algorithm);
      }
    }
  }
  // Slots hold at most 256 KiB, which is also the default except for short messages.
  if (share_memory && topology.largest_host() > 1) options.chunk_sizes = {64 << 10, 128 << 10};
  return options;
}

bool Autotuner::Change::apply(Tunables& tunables) const {
  const Tunables before = tunables;
  switch (kind) {
    case Kind::kHierarchicalAllreduce: tunables.hierarchical_allreduce ^= true; break;
    case Kind::kHierarchicalAllgather: tunables.hierarchical_allgather ^= true; break;
    case Kind::kCache: tunables.cache_enabled ^= true; break;
    case Kind::kChunk: tunables.chunk_bytes = chunk_bytes; break;
    case Kind::kAlgorithm:
      // Two levels have just been found to be better.
      if (!tunables.hierarchical_allreduce) tunables.algorithm = algorithm;
      break;
  }
  return tunables != before;
}

std::vector<Autotuner::Change> Autotuner::changes_for(const AutotuneOptions& options) {
  using Kind = Change::Kind;
  std::vector<Change> changes;
  if (options.hierarchical_allreduce) changes.push_back({Kind::kHierarchicalAllreduce});
  if (options.hierarchical_allgather) changes.push_back({Kind::kHierarchicalAllgather});
  for (const auto algorithm : options.algorithms) changes.push_back({Kind::kAlgorithm, algorithm});
  for (const size_t bytes : options.chunk_sizes) {
    changes.push_back({Kind::kChunk, AllreduceAlgorithm::kAuto, bytes});
  }
  if (options.cache) changes.push_back({Kind::kCache});
  return changes;
}

Autotuner::Autotuner(AutotuneOptions options, const Tunables& initial)
    : options_(std::move(options)),
      changes_(changes_for(options_)),
      current_(initial),
      best_(initial),
      sampler_(options_.steps_per_sample),
      warmups_left_(options_.warmup_samples) {
  if (dimensions() > 0) {
    search_.emplace(dimensions(), first_points(), options_.most_samples, options_.noise);
  }
  done_ = !search_ && changes_.empty();
}

// Points spread over the square. Users of autotune expect these values in their logs.
std::vector<Point> Autotuner::first_points() const {
  struct First {
    double megabytes;
    double milliseconds;
  };
  constexpr std::array<First, 4> kFirst = {{{4, 5}, {32, 50}, {16, 25}, {8, 10}}};
  std::vector<Point> points;
  for (const First& first : kFirst) {
    Tunables tunables;
    tunables.fusion_threshold = static_cast<int64_t>(first.megabytes * kMegabyte);
    tunables.cycle_time_ms = first.milliseconds;
    points.push_back(to_point(tunables));
  }
  return points;
}

Point Autotuner::to_point(const Tunables& tunables) const {
  Point point;
  if (options_.fusion_threshold) {
    const auto bytes = static_cast<double>(tunables.fusion_threshold);
    point.push_back(to_unit(bytes, kMostMegabytes * kMegabyte));
  }
  if (options_.cycle_time) point.push_back(to_unit(tunables.cycle_time_ms, kMostMilliseconds));
  return point;
}

Tunables Autotuner::at_point(const Point& point) const {
  Tunables tunables = best_;
  size_t i = 0;
  if (options_.fusion_threshold) {
    tunables.fusion_threshold = std::llround(from_unit(point[i++], kMostMegabytes * kMegabyte));
  }
  // Whole microseconds, to keep the log readable.
  if (options_.cycle_time) {
    tunables.cycle_time_ms = std::round(from_unit(point[i], kMostMilliseconds) * 1e3) / 1e3;
  }
  return tunables;
}

std::optional<Tunables> Autotuner::record(std::span<const uint64_t> tensors, int64_t bytes,
                                          int64_t now_us) {
  if (done_) return std::nullopt;
  const std::optional<double> score = sampler_.record(tensors, bytes, now_us);
  if (!score) return std::nullopt;
  if (warmups_left_ > 0) {
    --warmups_left_;
    return std::nullopt;
  }
  const Tunables before = current_;
  take_score(*score);
  choose_next();
  if (current_ == before) return std::nullopt;
  return current_;
}

void Autotuner::take_score(double score) {
  rows_.push_back(row(current_, score));
  if (search_ && !search_->done()) search_->observe(to_point(current_), score);
  // An equal score is not better: on a plateau the first values stay.
  if (best_score_ && !(score > *best_score_)) return;
  best_ = current_;
  best_score_ = score;
}

void Autotuner::choose_next() {
  if (search_ && !search_->done()) {
    current_ = at_point(search_->next());
    return;
  }
  while (next_change_ < changes_.size()) {
    current_ = best_;
    if (changes_[next_change_++].apply(current_)) return;
  }
  current_ = best_;
  done_ = true;
  rows_.push_back(row(best_, *best_score_));
}

std::vector<std::string> Autotuner::take_rows() { return std::exchange(rows_, {}); }

}  // namespace hvd
