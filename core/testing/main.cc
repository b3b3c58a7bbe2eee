// SPDX-License-Identifier: Apache-2.0
// main() of every test program. It prints the name of a test that exceeds its time limit (60
// seconds, or HVD_TEST_LIMIT_SECONDS) and aborts, so that a hang is a failure with a name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr unsigned kDefaultLimitSeconds = 60;
char current_test[512];

// Signal handler: only async-signal-safe calls.
void on_time_limit(int /*signal*/) {
  constexpr char kText[] = "\ntime limit exceeded by test ";
  (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  (void)!write(STDERR_FILENO, current_test, strnlen(current_test, sizeof(current_test)));
  (void)!write(STDERR_FILENO, "\n", 1);
  std::abort();
}

class TimeLimit : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    std::snprintf(current_test, sizeof(current_test), "%s.%s", info.test_suite_name(), info.name());
    const char* limit = std::getenv("HVD_TEST_LIMIT_SECONDS");
    alarm(limit != nullptr ? static_cast<unsigned>(std::atoi(limit)) : kDefaultLimitSeconds);
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override { alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::signal(SIGALRM, on_time_limit);
  std::signal(SIGPIPE, SIG_IGN);
  testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);
  return RUN_ALL_TESTS();
}
