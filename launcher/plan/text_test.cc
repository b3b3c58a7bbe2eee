// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/text.h"

#include <cstdlib>

#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Text, SplitsAtASeparatorAndIntoWords) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(words("  a\t b \n"), ElementsAre("a", "b"));
  EXPECT_THAT(words("  "), ElementsAre());
}

TEST(Text, NumbersAreReadWholeOrNotAtAll) {
  EXPECT_EQ(parse_integer("+12"), 12);
  EXPECT_EQ(parse_number("-1.5"), -1.5);
  for (const char* bad : {"", "1x", "0x10", "1.5", " 1", "99999999999999999999"}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
  }
  for (const char* bad : {"", "nan", "inf", "1e999", "1,5"}) {
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  }
}

TEST(Text, ArgumentsAreSplitAsAShellWould) {
  EXPECT_THAT(*split_like_shell(R"( -o A=b  'two words' "a \"b\" \c" d\ e x''y "" )"),
              ElementsAre("-o", "A=b", "two words", R"(a "b" \c)", "d e", "xy", ""));
  EXPECT_THAT(*split_like_shell(""), ElementsAre());
  const auto open = split_like_shell("a 'b");
  EXPECT_CODE(StatusCode::kInvalidArgument, open);
  EXPECT_THAT(open.status().message(), HasSubstr("a quote (') is left open"));
}

TEST(Text, QuotedTextIsOneWordForAShell) {
  EXPECT_EQ(quoted_for_shell("-p"), "-p");
  setenv("HVD_TEXT", "/a b:/it's:$HOME:`x`:\\", 1);
  const std::string quoted = quoted_for_shell(std::getenv("HVD_TEXT"));
  EXPECT_EQ(std::system(("test \"$HVD_TEXT\" = " + quoted).c_str()), 0) << "a real shell";
  for (const char* text : {"", "two words", "it's", "$HOME", "a\\b", "\"x\"", "*"}) {
    EXPECT_THAT(*split_like_shell(quoted_for_shell(text)), ElementsAre(text));
  }
}

TEST(Text, ATypingErrorIsRecognisedAndAnotherWordIsNot) {
  const std::vector<std::string_view> names = {"--hosts", "--hostfile", "-np"};
  EXPECT_EQ(closest("--hots", names), "--hosts");
  EXPECT_EQ(closest("--host-file", names), "--hostfile");
  EXPECT_EQ(closest("--learning-rate", names), std::nullopt);
}

}  // namespace
}  // namespace hvd::launcher
