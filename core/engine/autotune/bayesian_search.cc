// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/bayesian_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"

namespace hvd {
namespace {

constexpr int kCandidates = 2048;

// Powers of the inverse of the plastic number. They are the least commensurable pair of numbers, so
// their multiples modulo 1 fill a square evenly.
constexpr std::array<double, 2> kSteps = {0.7548776662466927, 0.5698402909980532};

// The candidates cover a slightly larger square and are clamped to the sides of the unit square, so
// that the sides are tried as well: "no waiting" and "no fusion" lie there.
Point candidate(int number, int dimensions) {
  constexpr double kStretch = 1.1;
  Point point;
  for (int i = 0; i < dimensions; ++i) {
    const double place = std::fmod(0.5 + (number + 1) * kSteps[i], 1.0);
    point.push_back(std::clamp(0.5 + (place - 0.5) * kStretch, 0.0, 1.0));
  }
  return point;
}

// Scales to mean 0 and deviation 1; all 0 when all values are equal.
std::vector<double> standardised(const std::vector<double>& scores) {
  const auto count = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  const double deviation = std::sqrt(squares / count);
  std::vector<double> result;
  for (const double score : scores) {
    result.push_back(deviation > 0 ? (score - mean) / deviation : 0.0);
  }
  return result;
}

// The length between 1/20 of the square and all of it that explains the values best.
GaussianProcess best_fit(const std::vector<Point>& points, const std::vector<double>& values,
                         double noise) {
  constexpr double kShortest = 0.05;
  constexpr int kLengths = 10;
  GaussianProcess best(points, values, 1.0, noise);
  for (int i = 0; i + 1 < kLengths; ++i) {
    const double length = kShortest * std::pow(1 / kShortest, static_cast<double>(i) / kLengths);
    GaussianProcess process(points, values, length, noise);
    if (process.log_likelihood() > best.log_likelihood()) best = std::move(process);
  }
  return best;
}

}  // namespace

BayesianSearch::BayesianSearch(int dimensions, std::vector<Point> first, int most, double noise)
    : dimensions_(dimensions), first_(std::move(first)), most_(most), noise_(noise) {
  HVD_CHECK(dimensions >= 1 && dimensions <= static_cast<int>(kSteps.size()));
}

void BayesianSearch::observe(const Point& at, double score) {
  if (!std::isfinite(score)) return;
  points_.push_back(at);
  scores_.push_back(score);
}

Point BayesianSearch::next() {
  HVD_CHECK(!done());
  const auto number = static_cast<size_t>(suggested_++);
  if (number < first_.size()) return first_[number];
  if (points_.empty()) return candidate(static_cast<int>(number), dimensions_);
  return most_promising();
}

Point BayesianSearch::most_promising() const {
  const std::vector<double> values = standardised(scores_);
  const GaussianProcess process = best_fit(points_, values, noise_);
  // The best predicted mean, not the best measurement: a single measurement may be high by noise.
  double best = process.predict(points_.front()).mean;
  for (const Point& point : points_) best = std::max(best, process.predict(point).mean);

  Point most_promising;
  double most = -1;
  for (int i = 0; i < kCandidates; ++i) {
    Point point = candidate(i, dimensions_);
    const double gain = expected_improvement(process.predict(point), best);
    if (gain > most) {
      most = gain;
      most_promising = std::move(point);
    }
  }
  return most_promising;
}

}  // namespace hvd
