// SPDX-License-Identifier: Apache-2.0
// A network with one hidden layer: 64 pixels, 32 hidden values, 10 classes. All weights are in one
// array, so one allreduce reduces all gradients.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "digits.h"

class Model {
 public:
  static constexpr int kHidden = 32;
  static constexpr size_t kHiddenWeights = kHidden * (Digits::kPixels + 1);  // one more: the bias
  static constexpr size_t kWeights = kHiddenWeights + Digits::kClasses * (kHidden + 1);
  using Image = std::span<const float, Digits::kPixels>;

  // The same weights for the same seed on every machine; the distributions of the standard library
  // do not guarantee that.
  explicit Model(unsigned seed) : weights_(kWeights) {
    std::mt19937 random(seed);
    for (float& weight : weights_) {
      weight = static_cast<float>(static_cast<double>(random()) / std::mt19937::max() - 0.5) / 4;
    }
  }

  std::span<float> weights() { return weights_; }
  std::span<const float> weights() const { return weights_; }

  int predict(Image image) const {
    const auto scores = class_scores(hidden_values(image));
    return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

  // Adds the gradient of the cross-entropy of one image.
  void add_gradient(Image image, int label, std::span<float, kWeights> gradient) const {
    const Hidden hidden = hidden_values(image);
    Scores error = probabilities(class_scores(hidden));
    error[label] -= 1;

    Hidden hidden_error{};
    for (int k = 0; k < Digits::kClasses; ++k) {
      const size_t row = kHiddenWeights + k * (kHidden + 1);
      for (int j = 0; j < kHidden; ++j) {
        gradient[row + j] += error[k] * hidden[j];
        hidden_error[j] += error[k] * weights_[row + j];
      }
      gradient[row + kHidden] += error[k];
    }
    for (int j = 0; j < kHidden; ++j) {
      const size_t row = j * (Digits::kPixels + 1);
      const float slope = hidden_error[j] * (1 - hidden[j] * hidden[j]);  // of tanh
      for (int i = 0; i < Digits::kPixels; ++i) gradient[row + i] += slope * image[i];
      gradient[row + Digits::kPixels] += slope;
    }
  }

  // Negative logarithm of the probability of the right class.
  float loss(Image image, int label) const {
    return -std::log(probabilities(class_scores(hidden_values(image)))[label]);
  }

 private:
  using Hidden = std::array<float, kHidden>;
  using Scores = std::array<float, Digits::kClasses>;

  Hidden hidden_values(Image image) const {
    Hidden hidden;
    for (int j = 0; j < kHidden; ++j) {
      const float* row = &weights_[j * (Digits::kPixels + 1)];
      float sum = row[Digits::kPixels];
      for (int i = 0; i < Digits::kPixels; ++i) sum += row[i] * image[i];
      hidden[j] = std::tanh(sum);
    }
    return hidden;
  }

  Scores class_scores(const Hidden& hidden) const {
    Scores scores;
    for (int k = 0; k < Digits::kClasses; ++k) {
      const float* row = &weights_[kHiddenWeights + k * (kHidden + 1)];
      float sum = row[kHidden];
      for (int j = 0; j < kHidden; ++j) sum += row[j] * hidden[j];
      scores[k] = sum;
    }
    return scores;
  }

  static Scores probabilities(Scores scores) {
    const float largest = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - largest);
    for (float& score : scores) score /= sum;
    return scores;
  }

  std::vector<float> weights_;
};
