// SPDX-License-Identifier: Apache-2.0
#include "collectives/pieces.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hvd {
namespace {

// 16 bytes 0, 1, 2 … in pieces of 0, 3, 1, 0, 0, 12 and 0 bytes, with separate outputs.
struct Some {
  std::vector<std::byte> in = std::vector<std::byte>(16);
  std::vector<std::byte> out = std::vector<std::byte>(16);
  std::vector<Piece> list;

  Some() {
    for (size_t i = 0; i < in.size(); ++i) in[i] = std::byte(i);
    size_t begin = 0;
    for (const size_t bytes : {0, 3, 1, 0, 0, 12, 0}) {
      list.push_back({in.data() + begin, out.data() + begin, bytes});
      begin += bytes;
    }
  }
};

TEST(Pieces, EveryRangeIsCopiedAcrossTheirBounds) {
  Some some;
  const Pieces pieces(some.list);
  ASSERT_EQ(pieces.total(), 16u);
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t end = begin; end <= 16; ++end) {
      std::vector<std::byte> range(end - begin);
      pieces.copy_from(begin, range.data(), range.size());
      for (size_t i = begin; i < end; ++i) ASSERT_EQ(range[i - begin], std::byte(i));

      std::fill(some.out.begin(), some.out.end(), std::byte{99});
      pieces.copy_to(begin, range.data(), range.size());
      for (size_t i = 0; i < 16; ++i) {
        ASSERT_EQ(some.out[i], i >= begin && i < end ? std::byte(i) : std::byte{99});
      }
    }
  }
}

TEST(Pieces, APlaceIsFoundInThePieceThatHoldsIt) {
  const Some some;
  const Pieces pieces(some.list);
  const std::vector<size_t> left_of_piece = {3, 2, 1, 1, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  for (size_t offset = 0; offset < 16; ++offset) {
    const Piece found = pieces.at(offset, 10);
    EXPECT_EQ(found.in, some.in.data() + offset);
    EXPECT_EQ(found.out, some.out.data() + offset);
    EXPECT_EQ(found.bytes, std::min<size_t>(10, left_of_piece[offset]));
  }
}

TEST(Pieces, NoPieceAndOnePieceAreListsToo) {
  EXPECT_EQ(Pieces({}).total(), 0u);
  Pieces({}).copy_to(0, nullptr, 0);
  Some some;
  const Piece whole{some.in.data(), some.out.data(), 16};
  const Pieces pieces(std::span(&whole, 1));
  EXPECT_EQ(pieces.at(5, 100).bytes, 11u);
  pieces.copy_to(5, some.in.data(), 2);
  EXPECT_EQ(some.out[6], std::byte{1});
}

}  // namespace
}  // namespace hvd
