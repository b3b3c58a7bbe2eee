// SPDX-License-Identifier: Apache-2.0
// Trains on all ranks of a job.
//
//     train_digits DIGITS [WEIGHTS]
//
// Without a launcher it is a job of one rank. With WEIGHTS, each rank writes its weights to the
// file WEIGHTS.<rank> as they are in memory. They are identical on all ranks, and the same as those
// of a single process except for rounding.
#include <cstdio>
#include <exception>
#include <fstream>
#include <hvd/hvd.hpp>
#include <string>

#include "digits.h"
#include "model.h"
#include "train.h"

int main(int argc, char** argv) try {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: %s DIGITS [WEIGHTS]\n", argv[0]);
    return 2;
  }
  const Digits digits = load_digits(argv[1]);

  hvd::init();
  // Every rank starts with the weights of rank 0.
  Model model(/*seed=*/1 + static_cast<unsigned>(hvd::rank()));
  hvd::broadcast(model.weights(), /*root=*/0);
  train(model, digits.for_training(), hvd::rank(), hvd::size(),
        [](std::span<float> gradient) { hvd::allreduce(gradient, {.name = "gradient"}); });

  const double share = accuracy(model, digits.for_test());
  if (hvd::rank() == 0) {
    std::printf("%d ranks recognise %.1f %% of digits they have not seen\n", hvd::size(),
                100 * share);
  }
  if (argc == 3) {
    const auto weights = std::as_bytes(model.weights());
    std::ofstream(std::string(argv[2]) + "." + std::to_string(hvd::rank()), std::ios::binary)
        .write(reinterpret_cast<const char*>(weights.data()),
               static_cast<std::streamsize>(weights.size()));
  }
  hvd::shutdown();
  return share >= 0.95 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
