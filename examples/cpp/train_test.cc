// SPDX-License-Identifier: Apache-2.0
#include "train.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "digits.h"
#include "model.h"

namespace {

const Digits& digits() {
  static const Digits loaded = load_digits(DIGITS_FILE);
  return loaded;
}

// Ranks as threads; each one adds up the gradients of all of them.
std::vector<Model> train_together(int size, int epochs) {
  const Digits training = digits().for_training();
  std::vector<Model> models(size, Model(/*seed=*/1));
  std::vector<std::span<float>> parts(size);
  std::barrier all(size);
  const auto run = [&](int rank) {
    std::vector<float> sum(Model::kWeights);
    const auto allreduce_average = [&](std::span<float> values) {
      parts[rank] = values;
      all.arrive_and_wait();
      for (size_t i = 0; i < values.size(); ++i) {
        sum[i] = 0;
        for (const auto& part : parts) sum[i] += part[i];
      }
      all.arrive_and_wait();
      for (size_t i = 0; i < values.size(); ++i) values[i] = sum[i] / static_cast<float>(size);
    };
    train(models[rank], training, rank, size, allreduce_average, epochs);
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(run, rank);
  for (std::thread& rank : ranks) rank.join();
  return models;
}

double largest_difference(const Model& a, const Model& b) {
  double largest = 0;
  for (size_t i = 0; i < Model::kWeights; ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a.weights()[i] - b.weights()[i])));
  }
  return largest;
}

TEST(Digits, HoldEveryImageAndNameAMalformedLine) {
  EXPECT_EQ(digits().size(), 1797);
  EXPECT_EQ(digits().for_training().size() + digits().for_test().size(), 1797);
  std::vector<int> count(Digits::kClasses);
  for (const int label : digits().labels) ++count[label];
  EXPECT_EQ(count, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  EXPECT_EQ(digits().image(0)[2], 5.0F / 16);

  const std::string path = std::filesystem::temp_directory_path() /
                           ("hvd_malformed_digits_" + std::to_string(::getpid()));
  std::ofstream(path) << "3 " << std::string(64, 'g') << "\n3 " << std::string(64, 'h') << "\n";
  try {
    load_digits(path);
    ADD_FAILURE() << "took a pixel of h";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(path + ":2"), std::string::npos) << error.what();
  }
  std::filesystem::remove(path);
}

TEST(Model, GradientIsTheSlopeOfTheLoss) {
  Model model(/*seed=*/3);
  const auto image = digits().image(7);
  const int label = digits().labels[7];
  std::vector<float> gradient(Model::kWeights);
  model.add_gradient(image, label, std::span<float, Model::kWeights>(gradient));
  for (size_t i = 0; i < Model::kWeights; i += 37) {
    constexpr float kStep = 1e-2F;
    const float before = model.weights()[i];
    model.weights()[i] = before + kStep;
    const float above = model.loss(image, label);
    model.weights()[i] = before - kStep;
    const float below = model.loss(image, label);
    model.weights()[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-3) << "weight " << i;
  }
}

TEST(Train, LearnsToRecogniseDigitsItHasNotSeen) {
  EXPECT_LT(accuracy(Model(/*seed=*/1), digits().for_test()), 0.2);
  const Model model = train_together(1, /*epochs=*/10)[0];
  EXPECT_GE(accuracy(model, digits().for_test()), 0.9);
}

TEST(Train, AnyNumberOfRanksEndsWithTheSameWeights) {
  constexpr int kFewEpochs = 5;
  const Model alone = train_together(1, kFewEpochs)[0];
  EXPECT_GT(largest_difference(alone, Model(1)), 0.1);
  for (const int size : {2, 5}) {  // 5 ranks have unequal shares
    const std::vector<Model> models = train_together(size, kFewEpochs);
    for (const Model& model : models) EXPECT_EQ(largest_difference(model, models[0]), 0);
    EXPECT_LT(largest_difference(alone, models[0]), 1e-4) << size << " ranks";
  }
}

}  // namespace
