// SPDX-License-Identifier: Apache-2.0
// The images of data/digits.txt; data/README.md names their source.
#pragma once

#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

struct Digits {
  static constexpr int kPixels = 64;
  static constexpr int kClasses = 10;

  std::vector<float> pixels;  // between 0 and 1, kPixels of each image
  std::vector<int> labels;

  int size() const { return static_cast<int>(labels.size()); }
  // Only the images at the indices for which `keep` returns true.
  template <typename Keep>
  Digits filtered(Keep keep) const {
    Digits kept;
    for (int i = 0; i < size(); ++i) {
      if (!keep(i)) continue;
      kept.labels.push_back(labels[i]);
      kept.pixels.insert(kept.pixels.end(), image(i).begin(), image(i).end());
    }
    return kept;
  }
  // Every fifth image is a test image, which is not used in training.
  Digits for_training() const {
    return filtered([](int index) { return index % 5 != 0; });
  }
  Digits for_test() const {
    return filtered([](int index) { return index % 5 == 0; });
  }
  std::span<const float, kPixels> image(int index) const {
    return std::span<const float, kPixels>(pixels.data() + index * kPixels, kPixels);
  }
};

// Throws std::runtime_error with the file and the line.
inline Digits load_digits(const std::string& path) {
  static const std::string kLevels = "0123456789abcdefg";
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot open it");
  Digits digits;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto malformed = [&] {
      return std::runtime_error(path + ":" + std::to_string(number) +
                                ": not a digit and 64 pixels of 0 to g");
    };
    if (line.size() != 2 + Digits::kPixels || line[0] < '0' || line[0] > '9' || line[1] != ' ') {
      throw malformed();
    }
    digits.labels.push_back(line[0] - '0');
    for (const char c : line.substr(2)) {
      const size_t level = kLevels.find(c);
      if (level == std::string::npos) throw malformed();
      digits.pixels.push_back(static_cast<float>(level) / 16);
    }
  }
  return digits;
}
