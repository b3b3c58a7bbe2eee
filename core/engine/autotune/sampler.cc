// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/sampler.h"

#include <algorithm>

namespace hvd {
namespace {

// A program that uses new names in each step has no tensor that occurs again. Then there is nothing
// to score, and memory must not grow.
constexpr size_t kMostTensors = 1 << 16;

}  // namespace

void Sampler::begin_sub_sample(std::span<const uint64_t> tensors, int64_t now_us) {
  begin_us_ = now_us;
  bytes_ = 0;
  complete_ = false;
  returns_.clear();
  for (const uint64_t tensor : tensors) returns_.emplace(tensor, 0);
}

std::optional<double> Sampler::record(std::span<const uint64_t> tensors, int64_t bytes,
                                      int64_t now_us) {
  if (!begin_us_ || now_us < *begin_us_ || returns_.size() > kMostTensors) {
    begin_sub_sample(tensors, now_us);
    return std::nullopt;
  }
  bytes_ += static_cast<double>(bytes);
  for (const uint64_t tensor : tensors) {
    const auto [known, is_new] = returns_.emplace(tensor, 0);
    if (!is_new && ++known->second >= steps_) complete_ = true;
  }
  // No time has passed, so there is no speed: the sub-sample continues until the clock advances.
  if (!complete_ || now_us == *begin_us_) return std::nullopt;

  scores_.push_back(bytes_ / static_cast<double>(now_us - *begin_us_));
  begin_sub_sample(tensors, now_us);
  if (scores_.size() < kSubSamples) return std::nullopt;
  const auto middle = scores_.begin() + kSubSamples / 2;
  std::nth_element(scores_.begin(), middle, scores_.end());
  const double median = *middle;
  scores_.clear();
  return median;
}

}  // namespace hvd
