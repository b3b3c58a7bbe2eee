// SPDX-License-Identifier: Apache-2.0
// The sizes of the parameters of ResNet-50: 161 tensors, 102 MB of float32.
#pragma once

#include <cstddef>
#include <vector>

namespace hvd::bench {

// Number of elements of each tensor, in the order of the layers. A convolution has three tensors:
// its weights and the scale and shift of its batch normalization.
inline std::vector<size_t> resnet50() {
  std::vector<size_t> counts = {64 * 3 * 49, 64, 64};
  const auto convolution = [&](size_t in, size_t out, size_t kernel) {
    counts.insert(counts.end(), {in * out * kernel, out, out});
  };
  size_t in = 64;
  constexpr struct { size_t blocks, width; } kStages[] = {{3, 64}, {4, 128}, {6, 256}, {3, 512}};
  for (const auto& stage : kStages) {
    for (size_t block = 0; block < stage.blocks; ++block) {
      convolution(in, stage.width, 1);
      convolution(stage.width, stage.width, 9);
      convolution(stage.width, 4 * stage.width, 1);
      if (block == 0) convolution(in, 4 * stage.width, 1);
      in = 4 * stage.width;
    }
  }
  counts.insert(counts.end(), {2048 * 1000, 1000});
  return counts;
}

}  // namespace hvd::bench
