// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include "base/thread.h"
#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    CaptureStdout();
    CaptureStderr();
  }
  void TearDown() override {
    configure_log(LogLevel::kWarning, /*hide_time=*/false);
    set_log_rank(-1);
  }
  void read() {
    out_ = GetCapturedStdout();
    err_ = GetCapturedStderr();
  }
  std::string out_, err_;
};

TEST_F(Log, LineHasTimeLevelPlaceRankAndText) {
  set_log_rank(3);
  log_line(LogLevel::kWarning, "/a/b/store.cc", 42, "text");
  read();
  EXPECT_THAT(err_, MatchesRegex("\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
                                 "\\.[0-9]{6}: W store\\.cc:42\\] \\[3\\]: text\n"));
}

TEST_F(Log, TimeAndRankCanBeAbsent) {
  configure_log(LogLevel::kWarning, /*hide_time=*/true);
  log_line(LogLevel::kError, "store.cc", 7, "text");
  read();
  EXPECT_EQ(err_, "[E store.cc:7] text\n");
}

TEST_F(Log, InfoAndLowerGoToStandardOutputTheRestToStandardError) {
  configure_log(LogLevel::kTrace, /*hide_time=*/true);
  HVD_LOG(kTrace, "t");
  HVD_LOG(kDebug, "d");
  HVD_LOG(kInfo, "{}", "i");
  HVD_LOG(kWarning, "w");
  HVD_LOG(kError, "e");
  read();
  EXPECT_THAT(out_, MatchesRegex("\\[T [^\n]*t\n\\[D [^\n]*d\n\\[I [^\n]*i\n"));
  EXPECT_THAT(err_, MatchesRegex("\\[W [^\n]*w\n\\[E [^\n]*e\n"));
}

TEST_F(Log, BelowTheLevelNothingIsWrittenAndNoArgumentIsComputed) {
  int computed = 0;
  HVD_LOG(kInfo, "{}", ++computed);
  configure_log(LogLevel::kError, /*hide_time=*/true);
  HVD_LOG(kWarning, "{}", ++computed);
  read();
  EXPECT_EQ(out_ + err_, "");
  EXPECT_EQ(computed, 0);
}

TEST_F(Log, LinesOfSeveralThreadsDoNotMix) {
  configure_log(LogLevel::kWarning, /*hide_time=*/true);
  constexpr int kLines = 200;
  const auto write_lines = [](char letter) {
    for (int i = 0; i < kLines; ++i) {
      log_line(LogLevel::kError, "f", 1, "{}", std::string(100, letter));
    }
  };
  std::thread other = start_thread("writer", [&] { write_lines('a'); });
  write_lines('b');
  other.join();
  read();
  int lines = 0;
  for (size_t at = 0; at < err_.size(); ++lines) {
    const size_t end = err_.find('\n', at);
    const std::string text = err_.substr(at, end - at);
    EXPECT_EQ(text, "[E f:1] " + std::string(100, text.back()));
    at = end + 1;
  }
  EXPECT_EQ(lines, 2 * kLines);
}

TEST(LogDeathTest, FatalWritesItsLineAndAborts) {
  EXPECT_EXIT(HVD_LOG(kFatal, "no way on"), ::testing::KilledBySignal(SIGABRT), "no way on");
}

}  // namespace
}  // namespace hvd
