// SPDX-License-Identifier: Apache-2.0
#include "launcher/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The output for `pieces`; each piece that begins a line is marked with '|'.
std::vector<std::string> split(const std::vector<std::string>& pieces, bool finish = true) {
  LineSplitter splitter;
  std::vector<std::string> out;
  const auto emit = [&](std::string_view piece, bool begins) {
    out.push_back((begins ? "|" : "") + std::string(piece));
  };
  for (const std::string& piece : pieces) splitter.feed(piece, emit);
  if (finish) splitter.finish(emit);
  return out;
}

TEST(LineSplitter, EndsLinesAtNewlinesAndReturns) {
  EXPECT_THAT(split({"a\nb\rc\r\nd"}), ElementsAre("|a\n", "|b\r", "|c\r\n", "|d\n"));
}

TEST(LineSplitter, KeepsALineUntilItEndsHoweverItArrives) {
  EXPECT_THAT(split({"a", "b", "\n", "c"}, /*finish=*/false), ElementsAre("|ab\n"));
  EXPECT_THAT(split({"", "a", ""}), ElementsAre("|a\n"));
  EXPECT_THAT(split({""}), IsEmpty());
}

TEST(LineSplitter, ShowsAReturnAtOnceAndItsLateNewlineWithoutAPrefix) {
  EXPECT_THAT(split({"50%\r", "\n", "x\n"}), ElementsAre("|50%\r", "\n", "|x\n"));
  EXPECT_THAT(split({"50%\r", "60%\r", "\n\n"}), ElementsAre("|50%\r", "|60%\r", "\n", "|\n"));
  EXPECT_THAT(split({"\r\r\n"}), ElementsAre("|\r", "|\r\n"));
}

TEST(LineSplitter, CutsALineThatIsTooLongBetweenTwoCharacters) {
  const std::string umlauts = "x" + std::string(kLongestLine - 2, 'y') + "\xc3\xa4" + "z\n";
  const auto out = split({umlauts});
  ASSERT_EQ(2U, out.size());
  EXPECT_EQ(kLongestLine + 1, out[0].size());  // the mark, the rest of it, and a newline
  EXPECT_EQ("|\xc3\xa4z\n", out[1]);
}

TEST(LineSplitter, CutsGarbageWhereverItHasTo) {
  const std::string garbage(3 * kLongestLine, '\x80');
  std::string joined;
  for (const std::string& piece : split({garbage})) joined += piece.substr(1, piece.size() - 2);
  EXPECT_EQ(garbage, joined);
}

TEST(LineSplitter, GivesBackEveryByte) {
  std::string all;
  for (int i = 0; i < 2048; ++i) all += static_cast<char>((i * 7 + i / 256) & 0xff);
  for (const size_t step : {size_t{1}, size_t{3}, size_t{1000}}) {
    LineSplitter splitter;
    std::string joined;
    const auto emit = [&](std::string_view piece, bool) { joined += piece; };
    for (size_t at = 0; at < all.size(); at += step) splitter.feed(all.substr(at, step), emit);
    splitter.finish(emit);
    EXPECT_EQ(all + (all.back() == '\n' ? "" : "\n"), joined);
  }
}

TEST(LastLines, KeepsTwentyAndCountsAProgressBarOnce) {
  LineSplitter splitter;
  LastLines last;
  const auto add = [&](std::string_view piece, bool begins) { last.add(piece, begins); };
  for (int i = 0; i < 50; ++i) splitter.feed("line " + std::to_string(i) + "\n", add);
  EXPECT_EQ(LastLines::kCount, last.lines().size());
  EXPECT_EQ("line 30", last.lines().front());
  for (int i = 0; i < 99; ++i) splitter.feed(std::to_string(i) + "%\r", add);
  splitter.feed("\n", add);
  splitter.feed("done", add);
  splitter.finish(add);
  EXPECT_EQ("line 32", last.lines().front());
  EXPECT_EQ("98%", last.lines()[18]);
  EXPECT_EQ("done", last.lines().back());
}

}  // namespace
}  // namespace hvd::launcher
