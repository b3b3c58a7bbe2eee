// SPDX-License-Identifier: Apache-2.0
// Turns the stream of finished batches into scores, in bytes reduced per microsecond.
//
// A sub-sample ends when some tensor has occurred again `steps` times. The tensors of its first
// batch are the first to do so, so it lasts for whole training steps, although the sampler has no
// notion of a step. A score is the median of five sub-samples: a pause for validation, for a
// checkpoint or for data, and the switch to new settings, each spoil one sub-sample and no score.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace hvd {

class Sampler {
 public:
  static constexpr int kSubSamples = 5;

  explicit Sampler(int steps) : steps_(steps) {}

  // One finished batch. `tensors` are numbers that a tensor keeps from step to step, like the hash
  // of its name. `now_us` is the time of a monotonic clock, in microseconds. The very first batch
  // only starts the clock. Returns a score when a sample has ended.
  std::optional<double> record(std::span<const uint64_t> tensors, int64_t bytes, int64_t now_us);

 private:
  void begin_sub_sample(std::span<const uint64_t> tensors, int64_t now_us);

  const int steps_;
  std::optional<int64_t> begin_us_;
  double bytes_ = 0;
  bool complete_ = false;  // enough steps, but the clock may not have advanced yet
  std::unordered_map<uint64_t, int> returns_;
  std::vector<double> scores_;
};

}  // namespace hvd
