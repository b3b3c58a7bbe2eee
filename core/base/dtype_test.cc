// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <set>

#include "testing/assertions.h"

namespace hvd {
namespace {

TEST(DType, EachHasASizeAndANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_GT(size_of(dtype), 0u) << i;
    EXPECT_TRUE(names.insert(to_string(dtype)).second) << i;
  }
  EXPECT_EQ(names.count("unknown dtype"), 0u);
  EXPECT_EQ(to_string(static_cast<DType>(kDTypeCount)), "unknown dtype");
}

TEST(DType, NumbersOnTheWireStayAsTheyAre) {
  EXPECT_EQ(static_cast<int>(DType::kFloat32), 7);
  EXPECT_EQ(static_cast<int>(DType::kBool), 9);
  EXPECT_EQ(static_cast<int>(DType::kBfloat16), 10);
  EXPECT_EQ(static_cast<int>(DType::kUint64), 12);
}

TEST(DType, FourAreFloating) {
  int floating = 0;
  for (int i = 0; i < kDTypeCount; ++i) floating += is_floating(static_cast<DType>(i));
  EXPECT_EQ(floating, 4);
  EXPECT_TRUE(is_floating(DType::kBfloat16));
}

}  // namespace
}  // namespace hvd
