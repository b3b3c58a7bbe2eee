// SPDX-License-Identifier: Apache-2.0
// Searches the point with the highest score in few measurements: first a few given points, then
// each time the point where a Gaussian process expects the largest improvement. There is no
// randomness: the same scores lead to the same points.
#pragma once

#include <vector>

#include "engine/autotune/gaussian_process.h"

namespace hvd {

class BayesianSearch {
 public:
  // Suggests `most` points in the unit interval or, with 2 dimensions, the unit square; those of
  // `first` are the first. `noise` is the variance of one measurement divided by that of all
  // scores.
  BayesianSearch(int dimensions, std::vector<Point> first, int most, double noise);

  bool done() const { return suggested_ >= most_; }
  // Only while !done(). Takes a few milliseconds after the given points.
  Point next();

  // A measurement, also of a point that was not suggested or lies outside of the square. A score
  // that is not finite is ignored.
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
