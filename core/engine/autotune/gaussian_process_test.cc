// SPDX-License-Identifier: Apache-2.0
#include "engine/autotune/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/autotune/bayesian_search.h"

namespace hvd {
namespace {

TEST(GaussianProcess, OneMeasurementGivesTheValuesOfTheFormula) {
  const std::vector<double> value = {2.0};
  const GaussianProcess exact({{0.0}}, value, /*length=*/0.5, /*noise=*/0);
  const double covariance = std::exp(-0.3 * 0.3 / (2 * 0.5 * 0.5));
  EXPECT_NEAR(exact.predict({0.3}).mean, 2 * covariance, 1e-7);
  EXPECT_NEAR(exact.predict({0.3}).deviation, std::sqrt(1 - covariance * covariance), 1e-7);
  // log N(2; 0, 1 + noise)
  EXPECT_NEAR(exact.log_likelihood(), -2 - 0.5 * std::log(2 * M_PI), 1e-7);

  const GaussianProcess noisy({{0.0}}, value, 0.5, /*noise=*/1);
  EXPECT_NEAR(noisy.predict({0.0}).mean, 1.0, 1e-9);
  EXPECT_NEAR(noisy.predict({0.0}).deviation, std::sqrt(0.5), 1e-9);
  EXPECT_NEAR(noisy.log_likelihood(), -1 - 0.5 * std::log(2 * M_PI * 2), 1e-9);
}

TEST(GaussianProcess, WithoutNoisePassesThroughWhatWasMeasuredAndDoubtsTheRest) {
  const std::vector<Point> points = {{0.1, 0.2}, {0.8, 0.3}, {0.4, 0.9}, {0.5, 0.5}};
  const std::vector<double> values = {1.0, -0.5, 0.3, 2.0};
  const GaussianProcess process(points, values, 0.3, 0);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(process.predict(points[i]).mean, values[i], 1e-6);
    EXPECT_NEAR(process.predict(points[i]).deviation, 0, 1e-4);
  }
  double last = 0;
  for (const double x : {0.8, 0.9, 1.0, 1.2, 1.6}) {
    const double deviation = process.predict({x, 0.3}).deviation;
    EXPECT_GE(deviation, last) << x;
    last = deviation;
  }
  EXPECT_NEAR(process.predict({50, 50}).mean, 0, 1e-9);
  EXPECT_NEAR(process.predict({50, 50}).deviation, 1, 1e-9);
}

TEST(GaussianProcess, TakesTheSamePlaceTwice) {
  const std::vector<double> values = {1.0, 3.0};
  const GaussianProcess process({{0.5}, {0.5}}, values, 0.5, 0);
  EXPECT_NEAR(process.predict({0.5}).mean, 2, 1e-6);
}

TEST(ExpectedImprovement, IsTheMeanOfWhatLiesAboveTheBest) {
  // Half of a normal distribution around the best: its deviation times the density at 0.
  EXPECT_NEAR(expected_improvement({1.0, 2.0}, 1.0), 2 / std::sqrt(2 * M_PI), 1e-12);
  EXPECT_DOUBLE_EQ(expected_improvement({3.0, 0.0}, 1.0), 2.0);
  EXPECT_DOUBLE_EQ(expected_improvement({0.0, 0.0}, 1.0), 0.0);
  EXPECT_GE(expected_improvement({-100.0, 0.1}, 1.0), 0.0);
}

TEST(BayesianSearch, GoesToTheBetterRegionAfterTheGivenPlaces) {
  BayesianSearch search(1, {{0.1}, {0.5}, {0.9}}, /*most=*/4, /*noise=*/0.1);
  const auto score = [](const Point& at) { return 10 * at[0]; };
  for (const double expected : {0.1, 0.5, 0.9}) {
    const Point at = search.next();
    EXPECT_EQ(at, Point{expected});
    search.observe(at, score(at));
  }
  ASSERT_FALSE(search.done());
  EXPECT_GT(search.next().at(0), 0.7);
  EXPECT_TRUE(search.done());
}

TEST(BayesianSearch, EqualOrMissingScoresStillLeadToDifferentPlaces) {
  for (const double score : {7.0, 0.0, std::nan(""), HUGE_VAL}) {
    BayesianSearch search(2, {{0.25, 0.25}}, 8, /*noise=*/0);
    std::vector<Point> places;
    while (!search.done()) {
      places.push_back(search.next());
      for (const double x : places.back()) EXPECT_TRUE(x >= 0 && x <= 1) << x;
      search.observe(places.back(), score);
    }
    for (size_t i = 1; i < places.size(); ++i) EXPECT_NE(places[i], places[i - 1]) << score;
  }
}

}  // namespace
}  // namespace hvd
