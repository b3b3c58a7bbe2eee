// SPDX-License-Identifier: Apache-2.0
// Looks for the place with the highest score in few measurements: a few given places first, then
// each time the place where a Gaussian process expects the largest improvement. No randomness: the
// same scores lead to the same places.
#pragma once

#include <vector>

#include "engine/autotune/gaussian_process.h"

namespace hvd {

class BayesianSearch {
 public:
  // Suggests `most` places in the unit interval or, with 2 dimensions, the unit square, beginning
  // with those of `first`.
  // `noise`: variance of a measurement, as a share of the variance of all scores.
  BayesianSearch(int dimensions, std::vector<Point> first, int most, double noise);

  bool done() const { return suggested_ >= most_; }
  // Only while !done(). Takes a few milliseconds once the given places are used up.
  Point next();

  // A measurement, also of a place that was not suggested or lies outside of the square. A score
  // that is not finite says nothing and is forgotten.
  void observe(const Point& at, double score);

 private:
  Point most_promising() const;

  const int dimensions_;
  const std::vector<Point> first_;
  const int most_;
  const double noise_;
  int suggested_ = 0;
  std::vector<Point> points_;
  std::vector<double> scores_;
};

}  // namespace hvd
