// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/report.h"

namespace hvd::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int exit_with(int code) { return code << 8; }
constexpr int killed_by(int signal) { return signal; }

// Two hosts with two ranks each; the first is the launcher's own.
class SupervisionTest : public ::testing::Test {
 protected:
  // Decisions since the last call, as "start 0", "stop 1 5000", "drop 1". Printed text is collected
  // in printed_.
  std::vector<std::string> decided() {
    std::vector<std::string> all;
    for (const Decision& each : job_.take_decisions()) {
      const std::string host = std::to_string(each.host);
      switch (each.kind) {
        case Decision::Kind::kStart: all.push_back("start " + host); break;
        case Decision::Kind::kStop:
          all.push_back("stop " + host + " " + std::to_string(each.grace.count()));
          break;
        case Decision::Kind::kDrop: all.push_back("drop " + host); break;
        case Decision::Kind::kPrint: printed_ += each.text + "\n"; break;
      }
    }
    return all;
  }

  void start() {
    job_.host_ready(0, now_);
    job_.host_ready(1, now_);
    for (int rank = 0; rank < 4; ++rank) job_.rank_started(rank, 1000 + rank);
    EXPECT_THAT(decided(), ElementsAre("start 0", "start 1"));
  }

  void pass(milliseconds time) {
    now_ += time;
    job_.tick(now_);
  }

  void all_exit(int status) {
    for (int rank = 0; rank < 4; ++rank) {
      if (!job_.ranks()[static_cast<size_t>(rank)].status.has_value()) {
        job_.rank_exited(rank, status, now_);
      }
    }
    job_.host_done(0, now_);
    job_.host_done(1, now_);
    job_.tick(now_);
    (void)decided();
  }

  Supervision::Time now_ = Supervision::Time(seconds(1000));
  Supervision job_{{{"a", false, {0, 1}}, {"b", true, {2, 3}}}, Timeouts(), now_};
  std::string printed_;
};

TEST_F(SupervisionTest, NoRankStartsBeforeAllHostsAreReady) {
  job_.host_ready(1, now_);
  EXPECT_THAT(decided(), IsEmpty());
  job_.host_ready(0, now_);
  EXPECT_THAT(decided(), ElementsAre("start 0", "start 1"));
}

TEST_F(SupervisionTest, AJobWhoseRanksAllEndWellIsASuccess) {
  start();
  job_.rank_exited(0, 0, now_);
  pass(seconds(5));
  job_.heard_from(1, now_);
  EXPECT_FALSE(job_.finished());
  EXPECT_THAT(decided(), IsEmpty());  // the other hosts still have the full timeout
  all_exit(0);
  EXPECT_TRUE(job_.finished());
  EXPECT_EQ(0, job_.exit_code());
  EXPECT_EQ("", printed_);
}

TEST_F(SupervisionTest, NothingStartsWithUnreachableHostsAndAllAreNamed) {
  job_.host_failed(1, "no route", now_);
  EXPECT_THAT(decided(), ElementsAre("drop 1"));
  EXPECT_FALSE(job_.finished());  // the other host may also fail, and its reason is reported
  job_.host_failed(0, "no fork", now_);
  EXPECT_THAT(decided(), ElementsAre("drop 0"));
  EXPECT_TRUE(job_.finished());
  EXPECT_EQ(1, job_.exit_code());
  EXPECT_THAT(printed_, HasSubstr("host b: no route"));
  EXPECT_THAT(printed_, HasSubstr("host a: no fork"));
  EXPECT_THAT(printed_, HasSubstr("nothing was started"));
}

TEST_F(SupervisionTest, AHostThatIsNotReadyInTimeIsGivenUp) {
  job_.host_ready(0, now_);
  EXPECT_EQ(now_ + seconds(30), job_.next_deadline().when());
  pass(milliseconds(29'999));
  EXPECT_THAT(decided(), IsEmpty());
  pass(milliseconds(1));
  EXPECT_THAT(decided(), ElementsAre("drop 1", "drop 0"));
  EXPECT_TRUE(job_.finished());
  EXPECT_THAT(printed_, HasSubstr("--start-timeout"));
}

TEST_F(SupervisionTest, AFailedRankStopsTheOtherRanksAndIsReported) {
  start();
  job_.rank_exited(2, exit_with(3), now_);
  EXPECT_THAT(decided(), ElementsAre("stop 0 5000", "stop 1 5000"));
  job_.rank_exited(0, killed_by(SIGTERM), now_);
  job_.rank_exited(1, exit_with(1), now_);
  pass(seconds(1));
  EXPECT_THAT(decided(), IsEmpty());
  EXPECT_THAT(printed_, HasSubstr("Process 2 exit with status code 3.\n"));
  EXPECT_THAT(printed_, HasSubstr("1 still run"));
  all_exit(killed_by(SIGKILL));
  EXPECT_TRUE(job_.finished());
  EXPECT_EQ(1, job_.exit_code());
  const std::string report = failure_report(job_, {"Traceback", "ValueError"});
  for (const char* part : {"rank:       2", "host:       b", "pid:        1002", "exit code 3",
                           "0 were stopped by SIGTERM; 3 were killed by SIGKILL; 1 failed as well",
                           "last 2 lines", "  | Traceback\n  | ValueError"}) {
    EXPECT_THAT(report, HasSubstr(part));
  }
}

TEST_F(SupervisionTest, AKilledRankIsTheFailedRankEvenIfReportedLater) {
  start();
  job_.rank_exited(0, exit_with(1), now_);
  job_.rank_exited(1, killed_by(SIGTERM), now_);
  pass(milliseconds(100));
  job_.rank_exited(3, killed_by(SIGKILL), now_);
  pass(milliseconds(200));
  (void)decided();
  EXPECT_THAT(printed_, HasSubstr("Process 3 exit with status code 137.\n"));
  EXPECT_EQ(3, job_.failed_rank());
  // After the grace period SIGKILL is sent by the agents themselves.
  pass(seconds(5));
  job_.rank_exited(2, killed_by(SIGKILL), now_);
  EXPECT_EQ(3, job_.failed_rank());
}

TEST_F(SupervisionTest, AHostThatDoesNotReportItsEndIsGivenUp) {
  start();
  job_.rank_exited(0, exit_with(1), now_);
  job_.host_done(0, now_);
  (void)decided();
  job_.heard_from(1, now_ + seconds(7));
  pass(milliseconds(7'999));
  EXPECT_FALSE(job_.finished());
  pass(milliseconds(1));
  EXPECT_THAT(decided(), ElementsAre("drop 1"));
  EXPECT_TRUE(job_.finished());
  EXPECT_THAT(printed_, HasSubstr("host b has not reported in time"));
}

TEST_F(SupervisionTest, ASilentHostIsLostAndEndsTheJob) {
  start();
  pass(seconds(6));
  job_.heard_from(1, now_);
  pass(milliseconds(6'999));
  EXPECT_THAT(decided(), IsEmpty());
  pass(milliseconds(1));
  EXPECT_THAT(decided(), ElementsAre("drop 1", "stop 0 2000"));
  EXPECT_THAT(printed_,
              HasSubstr("host b is lost: nothing was heard from it for 7 s; ranks 2,3 ran"));
  job_.host_done(0, now_);
  EXPECT_TRUE(job_.finished());
  EXPECT_EQ(1, job_.exit_code());
}

TEST_F(SupervisionTest, SilenceWhileSuspendedMeansNothing) {
  start();
  now_ += seconds(3600);
  job_.resumed(now_);
  pass(milliseconds(6'999));
  EXPECT_THAT(decided(), IsEmpty());
}

TEST_F(SupervisionTest, TheFirstSignalStopsAndTheSecondKills) {
  start();
  job_.interrupted(SIGINT, now_);
  EXPECT_THAT(decided(), ElementsAre("stop 0 5000", "stop 1 5000"));
  pass(seconds(1));
  job_.interrupted(SIGINT, now_);
  EXPECT_THAT(decided(), ElementsAre("stop 0 0", "stop 1 0"));
  all_exit(killed_by(SIGKILL));
  EXPECT_EQ(130, job_.exit_code());
  EXPECT_EQ("", failure_report(job_, {}));
  EXPECT_THAT(printed_, Not(HasSubstr("Process")));
}

TEST_F(SupervisionTest, ASignalBeforeTheStartEndsAtOnce) {
  job_.host_ready(0, now_);
  job_.interrupted(SIGTERM, now_);
  EXPECT_THAT(decided(), ElementsAre("drop 0", "drop 1"));
  EXPECT_TRUE(job_.finished());
  EXPECT_EQ(143, job_.exit_code());
}

TEST_F(SupervisionTest, AClosedStandardOutputEndsTheJob) {
  start();
  job_.output_failed("Broken pipe", now_);
  EXPECT_THAT(decided(), ElementsAre("stop 0 5000", "stop 1 5000"));
  all_exit(killed_by(SIGTERM));
  EXPECT_EQ(128 + SIGPIPE, job_.exit_code());
}

TEST_F(SupervisionTest, AHostThatCannotRunTheCommandEndsTheJob) {
  start();
  job_.host_failed(1, "there is no command", now_);
  EXPECT_THAT(decided(), ElementsAre("stop 0 5000", "stop 1 5000"));
  all_exit(killed_by(SIGTERM));
  EXPECT_EQ(1, job_.exit_code());
  EXPECT_FALSE(job_.failed_rank().has_value());
}

TEST(Report, NamesSignalsAndRanges) {
  EXPECT_EQ("killed by SIGSEGV (exit code 139)", describe_exit(killed_by(SIGSEGV)));
  EXPECT_EQ("exit code 7", describe_exit(exit_with(7)));
  EXPECT_EQ("0-3,5,7,8", ranges({0, 1, 2, 3, 5, 7, 8}));
}

}  // namespace
}  // namespace hvd::launcher
