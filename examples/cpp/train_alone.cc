// SPDX-License-Identifier: Apache-2.0
// Trains in one process; the reference for training on several ranks.
//
//     train_alone examples/cpp/data/digits.txt
//
// Fails if it recognises less than 95 % of the test images.
#include <cstdio>
#include <exception>

#include "digits.h"
#include "model.h"
#include "train.h"

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIGITS\n", argv[0]);
    return 2;
  }
  const Digits digits = load_digits(argv[1]);
  Model model(/*seed=*/1);
  train(model, digits.for_training(), /*rank=*/0, /*size=*/1, [](std::span<float>) {});
  const Digits unseen = digits.for_test();
  const double share = accuracy(model, unseen);
  std::printf("recognises %.1f %% of %d digits that it has not seen\n", 100 * share, unseen.size());
  return share >= 0.95 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
