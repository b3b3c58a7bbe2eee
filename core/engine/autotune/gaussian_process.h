// SPDX-License-Identifier: Apache-2.0
// Estimates a function from a few noisy measurements of it: at each point the most likely value and
// its uncertainty. Pure arithmetic.
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
  // two different measurements of the same point are not a failure even then.
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

// The expected amount by which a measurement exceeds `best`. At least 0: a bad result costs only
// the measurement.
double expected_improvement(const Prediction& prediction, double best);

}  // namespace hvd
