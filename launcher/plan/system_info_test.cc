// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/system_info.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::HasSubstr;

TEST(CaptureOutput, ReturnsAllThatAProgramWrites) {
  const auto text = capture_output({"sh", "-c", "echo loud >&2; seq 20000 | tail -n 2"},
                                   Deadline::after(std::chrono::seconds(30)));
  ASSERT_OK(text);
  EXPECT_EQ(*text, "19999\n20000\n");
}

TEST(CaptureOutput, DistinguishesMissingProgramsFromFailures) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  EXPECT_CODE(StatusCode::kNotFound, capture_output({"no-such-program"}, deadline));
  const auto failed = capture_output({"sh", "-c", "exit 3"}, deadline);
  EXPECT_CODE(StatusCode::kUnavailable, failed);
  EXPECT_THAT(failed.status().message(), HasSubstr("exit code 3"));
}

// Every child holds the write end of the pipe, so the read ends when the last child has ended.
TEST(CaptureOutput, AtTheDeadlineTheProgramIsKilledWithItsChildren) {
  const std::string path = ::testing::TempDir() + "alive." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const char* output : {"", "exec 1>&-;"}) {
    const std::string script = "exec 3>" + path + ";" + output + " sleep 600 & sleep 600";
    std::thread reader([&] { EXPECT_OK(read_file(path)); });
    EXPECT_CODE(
        StatusCode::kTimeout,
        capture_output({"sh", "-c", script}, Deadline::after(std::chrono::milliseconds(200))));
    reader.join();
  }
  unlink(path.c_str());
}

TEST(ReadFile, NamesTheFileThatCannotBeRead) {
  EXPECT_EQ(read_file("/nowhere").status().message(), "/nowhere: No such file or directory");
  EXPECT_EQ(read_file("/tmp").status().message(), "/tmp: Is a directory");
}

TEST(ThisSystem, HasItsVariables) {
  setenv("HVD_PLAN_TEST", "a=b", 1);
  EXPECT_EQ(this_system().variable("HVD_PLAN_TEST"), "a=b");
  EXPECT_EQ(this_system().variable("HVD_NO_SUCH"), "");
  EXPECT_FALSE(this_system().directory.empty());
  EXPECT_FALSE(this_system().has_library("libhvd-no-such.so"));
}

}  // namespace
}  // namespace hvd::launcher
