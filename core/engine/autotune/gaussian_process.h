// SPDX-License-Identifier: Apache-2.0
// What is known of a function from a few noisy measurements of it: at each place the most likely
// value, and how sure that is. Arithmetic alone.
#pragma once

#include <span>
#include <vector>

namespace hvd {

// Coordinates, each usually between 0 and 1.
using Point = std::vector<double>;

struct Prediction {
  double mean = 0;
  double deviation = 0;  // of the function itself, without the noise of another measurement
};

// Regression with the kernel exp(-distance² / 2·length²): the function is smooth on the scale of
// `length`, varies by about 1 and is 0 where nothing is known.
class GaussianProcess {
 public:
  // `noise` is the variance of one measurement. With 0 the mean passes through every measurement;
  // measuring one place twice with different results is then still no failure.
  GaussianProcess(std::vector<Point> points, std::span<const double> values, double length,
                  double noise);

  Prediction predict(const Point& at) const;

  // How well `length` and `noise` explain the values: the logarithm of their probability.
  double log_likelihood() const { return log_likelihood_; }

 private:
  std::vector<Point> points_;
  double length_;
  std::vector<double> factor_;  // n × n by columns: Cholesky factor of the covariance of the values
  std::vector<double> weights_;  // covariance⁻¹ · values
  double log_likelihood_ = 0;
};

// By how much a measurement there may be expected to exceed `best`. Zero at the least: a bad result
// costs nothing but the measurement.
double expected_improvement(const Prediction& prediction, double best);

}  // namespace hvd
