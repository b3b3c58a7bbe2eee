// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/gaussian_process.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/status.h"

namespace hvd {
namespace {

// Two measurements of almost the same point have almost equal rows in the covariance, which
// rounding can make singular. This additional noise prevents that and is too small to change
// results.
constexpr double kLeastNoise = 1e-9;

double covariance(const Point& a, const Point& b, double length) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-squares / (2 * length * length));
}

Eigen::Index index(size_t i) { return static_cast<Eigen::Index>(i); }

}  // namespace

GaussianProcess::GaussianProcess(std::vector<Point> points, std::span<const double> values,
                                 double length, double noise)
    : points_(std::move(points)), length_(length) {
  HVD_CHECK(points_.size() == values.size() && length > 0 && noise >= 0);
  const auto n = points_.size();
  factor_.resize(n * n);
  weights_.assign(values.begin(), values.end());
  // In place: the results of Eigen are in plain vectors, so no other file includes Eigen.
  Eigen::Map<Eigen::MatrixXd> matrix(factor_.data(), index(n), index(n));
  Eigen::Map<Eigen::VectorXd> weights(weights_.data(), index(n));
  for (size_t row = 0; row < n; ++row) {
    for (size_t column = 0; column < n; ++column) {
      matrix(index(row), index(column)) = covariance(points_[row], points_[column], length_);
    }
    matrix(index(row), index(row)) += std::max(noise, kLeastNoise);
  }
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> cholesky(matrix);
  HVD_CHECK(cholesky.info() == Eigen::Success);
  cholesky.solveInPlace(weights);

  for (size_t i = 0; i < n; ++i) {
    log_likelihood_ -= 0.5 * values[i] * weights_[i] + std::log(matrix(index(i), index(i))) +
                       0.5 * std::log(2 * std::numbers::pi);
  }
}

Prediction GaussianProcess::predict(const Point& at) const {
  const auto n = points_.size();
  Eigen::VectorXd with(index(n));
  for (size_t i = 0; i < n; ++i) with(index(i)) = covariance(points_[i], at, length_);

  Prediction prediction;
  prediction.mean = with.dot(Eigen::Map<const Eigen::VectorXd>(weights_.data(), index(n)));
  const Eigen::Map<const Eigen::MatrixXd> matrix(factor_.data(), index(n), index(n));
  matrix.triangularView<Eigen::Lower>().solveInPlace(with);
  prediction.deviation = std::sqrt(std::max(0.0, 1 - with.squaredNorm()));
  return prediction;
}

double expected_improvement(const Prediction& prediction, double best) {
  const double gain = prediction.mean - best;
  if (prediction.deviation <= 0) return std::max(gain, 0.0);
  const double z = gain / prediction.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double probability = std::erfc(-z / std::numbers::sqrt2) / 2;
  return std::max(gain * probability + prediction.deviation * density, 0.0);
}

}  // namespace hvd
