// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunks.h"

#include <gtest/gtest.h>

#include <vector>

#include "collectives/ring.h"

namespace hvd {
namespace {

TEST(Chunks, CoverTheBufferInWholeElementsWithTheRemainderInTheFirst) {
  for (const size_t element_size : {1, 4, 8}) {
    for (int parts = 1; parts <= 9; ++parts) {
      for (size_t count = 0; count <= 30; ++count) {
        std::vector<std::byte> data(count * element_size);
        const Chunks chunks(data.size(), parts, element_size);
        std::byte* next = data.data();
        for (int i = 0; i < parts; ++i) {
          const Bytes chunk = chunks.of(data, i);
          EXPECT_EQ(chunk.data(), next);
          const size_t elements = count / parts + (static_cast<size_t>(i) < count % parts ? 1 : 0);
          EXPECT_EQ(chunk.size(), elements * element_size);
          next += chunk.size();
        }
        EXPECT_EQ(chunks.of(data, 0, parts).size(), data.size());
      }
    }
  }
}

TEST(Ring, VisitsEveryRankOnceAndEveryHostInOneStretch) {
  const Topology topology({7, 3, 7, 3, 5});
  const std::vector<int> order = {0, 2, 1, 3, 4};
  for (int position = 0; position < 5; ++position) {
    const Ring ring(topology, order[position]);
    for (int hops = -5; hops <= 5; ++hops) {
      EXPECT_EQ(ring.at(hops), order[(position + hops + 5) % 5]);
    }
  }
}

}  // namespace
}  // namespace hvd
