// SPDX-License-Identifier: Apache-2.0
#include "collectives/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace hvd {
namespace {

TEST(Scratch, IsAlignedAndGrowsOnlyWhenMoreIsAskedFor) {
  Scratch scratch;
  EXPECT_EQ(scratch.capacity(), 0U);
  EXPECT_TRUE(scratch.get(0).empty());
  EXPECT_EQ(scratch.capacity(), 0U);

  const Bytes large = scratch.get(1000);
  ASSERT_EQ(large.size(), 1000U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % Scratch::kAlignment, 0U);
  std::ranges::fill(large, std::byte{7});  // asan detects writes beyond the ends
  const size_t capacity = scratch.capacity();

  EXPECT_EQ(scratch.get(10).size(), 10U);
  EXPECT_EQ(scratch.get(1000).data(), large.data());
  EXPECT_EQ(scratch.capacity(), capacity);
  EXPECT_EQ(scratch.get(5000).size(), 5000U);
  EXPECT_GE(scratch.capacity(), 5000U);
}

}  // namespace
}  // namespace hvd
