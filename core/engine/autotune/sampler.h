// SPDX-License-Identifier: Apache-2.0
// Turns the stream of executed batches into scores, in bytes reduced per microsecond.
//
// A sub-sample lasts until some tensor has come back so-and-so many times. Those of the batch that
// began it are the first to do so: it lasts for whole steps of training, without knowing what a
// step is. A score is the median of five of them: pauses for validation, for a checkpoint or for
// data, and the moment in which new settings come into force, each spoil one sub-sample and no
// score.
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

  // One executed batch. `tensors` are any numbers that stay with a tensor from step to step, like
  // the hash of its name; `now_us` is of a clock that does not go back. The first batch of all only
  // starts the clock. Returns a score when a sample has ended.
  std::optional<double> record(std::span<const uint64_t> tensors, int64_t bytes, int64_t now_us);

 private:
  void begin_sub_sample(std::span<const uint64_t> tensors, int64_t now_us);

  const int steps_;
  std::optional<int64_t> begin_us_;
  double bytes_ = 0;
  bool complete_ = false;  // steps enough, but no time may have passed yet
  std::unordered_map<uint64_t, int> returns_;
  std::vector<double> scores_;
};

}  // namespace hvd
