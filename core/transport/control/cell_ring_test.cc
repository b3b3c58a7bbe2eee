// SPDX-License-Identifier: Apache-2.0
#include "transport/control/cell_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "net/codec.h"

namespace hvd {
namespace {

TEST(CellRing, PassesBytesInOrderThroughManyRounds) {
  const auto ring = std::make_unique<CellRing>();
  CellWriter writer(*ring);
  CellReader reader(*ring);
  for (int i = 0; i < 3000; ++i) {
    const std::string sent(1 + i % 150, static_cast<char>(i));
    ASSERT_EQ(writer.write_some(bytes_of(sent)), sent.size());
    std::string got;
    for (ConstBytes piece = reader.peek(); !piece.empty(); piece = reader.peek()) {
      got += text_of(piece);
      reader.release();
    }
    ASSERT_EQ(got, sent);
  }
}

TEST(CellRing, TakesNoMoreThanFitsAndGoesOnWhenThereIsRoom) {
  const auto ring = std::make_unique<CellRing>();
  CellWriter writer(*ring);
  CellReader reader(*ring);
  const std::string much(2 * CellRing::kCells * CellRing::kCellBytes, 'x');
  EXPECT_EQ(writer.write_some(bytes_of(much)), CellRing::kCells * CellRing::kCellBytes);
  EXPECT_EQ(writer.write_some(bytes_of("y")), 0u);
  ASSERT_EQ(reader.peek().size(), CellRing::kCellBytes);
  reader.release();
  EXPECT_EQ(writer.write_some(bytes_of("y")), 1u);
  EXPECT_EQ(writer.write_some(bytes_of("z")), 0u);
}

TEST(CellRing, ShowsTheReaderOnlyWhatIsWhole) {
  const auto ring = std::make_unique<CellRing>();
  constexpr int kMessages = 20'000;
  std::thread other([&ring] {
    CellWriter writer(*ring);
    for (int i = 0; i < kMessages;) {
      const std::string message(1 + i % 60, static_cast<char>('a' + i % 26));
      if (writer.write_some(bytes_of(message)) > 0) ++i;
    }
  });
  CellReader reader(*ring);
  for (int i = 0; i < kMessages;) {
    const ConstBytes piece = reader.peek();
    if (piece.empty()) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(text_of(piece), std::string(1 + i % 60, static_cast<char>('a' + i % 26)));
    reader.release();
    ++i;
  }
  other.join();
}

}  // namespace
}  // namespace hvd
