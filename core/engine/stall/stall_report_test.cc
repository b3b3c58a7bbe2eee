// SPDX-License-Identifier: Apache-2.0
#include "engine/stall/stall_report.h"

#include "testing/assertions.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RankReport rank(int number, std::vector<WaitingTensor> waiting, double silence = 70) {
  return {.rank = number,
          .host = number < 4 ? "a" : "b",
          .answered = true,
          .last_submitted = "s",
          .last_completed = "c",
          .inside_call = "synchronize",
          .seconds_since_last_submission = silence,
          .waiting = std::move(waiting)};
}

TEST(StallReport, SaysNothingWhileNobodyWaitsLong) {
  const RankReport reports[] = {rank(0, {{"t", 59}}), rank(1, {})};
  EXPECT_THAT(make_stall_report(reports, {}).text, IsEmpty());
}

TEST(StallReport, ARankThatSubmitsOtherThingsIsSlow) {
  const RankReport reports[] = {rank(0, {{"t", 75}}), rank(1, {{"young", 0.2}}, 0.2)};
  EXPECT_EQ(make_stall_report(reports, {}).text,
            "1 tensor has waited for 60 s or longer:\n"
            "  \"t\" (75 s): rank 0 has it, rank 1 does not\n"
            "What the ranks do that did not submit them:\n"
            "  rank 1 (host a): slow: still submitting other tensors; last submitted \"s\", last "
            "completed \"c\", inside synchronize; last submission 0.2 s ago");
}

TEST(StallReport, ARankThatIsSilentAndWaitsForNothingIsSlowToo) {
  RankReport computing = rank(1, {}, 80);
  computing.inside_call.clear();
  computing.last_completed.clear();
  const RankReport reports[] = {rank(0, {{"t", 75}}), computing};
  EXPECT_THAT(make_stall_report(reports, {}).text,
              HasSubstr("slow: nothing submitted for a while; last submitted \"s\", last completed "
                        "nothing, outside of Horovod; last submission 80 s ago"));
}

TEST(StallReport, FromARankThatHasJoinedNothingIsExpectedButOthersMayBeLateForTheJoin) {
  RankReport joined = rank(0, {{"join", 65}});
  joined.joined = true;
  const RankReport reports[] = {joined, rank(1, {}), rank(2, {{"t", 70}})};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("\"join\" (65 s): rank 0 has it, ranks 1, 2 do not"));
  EXPECT_THAT(text, HasSubstr("\"t\" (70 s): rank 2 has it, rank 1 does not"));
}

TEST(StallReport, ARankThatDoesNotAnswerIsDead) {
  const RankReport reports[] = {rank(0, {{"t", 75}}), {.rank = 5, .host = "b"}};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("rank 0 has it, rank 5 does not"));
  EXPECT_TRUE(text.ends_with("rank 5 (host b): dead: no answer")) << text;
}

TEST(StallReport, RanksThatWaitForEachOtherHaveDivergedAndBothNamesAreShown) {
  const RankReport reports[] = {rank(0, {{"grad.w", 75}}), rank(1, {{"grad.b", 74}}),
                                rank(2, {{"grad.w", 75}})};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("ranks 0, 2 (host a): diverged: waiting for \"grad.w\" (rank 1 did "
                              "not submit it) while rank 1 waits for \"grad.b\""));
  EXPECT_THAT(text, HasSubstr("rank 1 (host a): diverged: waiting for \"grad.b\" (ranks 0, 2 did "
                              "not submit it) while ranks 0, 2 wait for \"grad.w\""));
}

TEST(StallReport, OnlyRanksThatWaitForEachOtherHaveDiverged) {
  // Rank 1 lacks "a"; it waits for "b", which rank 0 has and rank 2 does not.
  const RankReport reports[] = {rank(0, {{"a", 75}, {"b", 75}}), rank(1, {{"b", 75}}),
                                rank(2, {{"a", 75}}, 1)};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("rank 1 (host a): diverged"));  // rank 2 waits for "a" of rank 1
  EXPECT_THAT(text, HasSubstr("rank 2 (host a): slow"));
  const RankReport without_circle[] = {rank(0, {{"a", 75}, {"b", 75}}), rank(1, {{"b", 75}}),
                                       rank(2, {}, 1)};
  EXPECT_THAT(make_stall_report(without_circle, {}).text, Not(HasSubstr("diverged")));
}

TEST(StallReport, ATensorThatAllHaveIsBeingCarriedOut) {
  const RankReport reports[] = {rank(0, {{"t", 75}}), rank(1, {{"t", 5}})};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("\"t\" (75 s): every rank has submitted it"));
  EXPECT_THAT(text, Not(HasSubstr("What the ranks do")));
}

TEST(StallReport, ARankWhoseListIsCutIsNotBlamed) {
  RankReport cut = rank(1, {{"u", 75}});
  cut.unlisted = 3;
  const RankReport reports[] = {rank(0, {{"t", 75}, {"u", 75}}), cut, rank(2, {{"u", 75}})};
  EXPECT_THAT(make_stall_report(reports, {}).text,
              HasSubstr("\"t\" (75 s): rank 0 has it, rank 2 does not"));
}

TEST(StallReport, TensorsBeyondTheShutdownTimeAreListedAndTheirRanksMarked) {
  const RankReport reports[] = {rank(0, {{"old", 130}, {"young", 70}}), rank(1, {}), rank(2, {})};
  const StallReport report = make_stall_report(reports, {60, 120});
  EXPECT_THAT(report.expired, ElementsAre("old"));
  EXPECT_THAT(report.text, HasSubstr("\"old\" (130 s): rank 0 has it, ranks 1!, 2! do not"));
  EXPECT_THAT(report.text, HasSubstr("\"young\" (70 s): rank 0 has it, ranks 1, 2 do not"));
  EXPECT_THAT(make_stall_report(reports, {60, 0}).expired, IsEmpty());
}

TEST(StallReport, AThousandRanksFitOnAFewLines) {
  std::vector<WaitingTensor> all;
  for (int i = 0; i < 100; ++i) all.push_back({"t" + std::to_string(100 + i), 61 + i * 0.1});
  std::vector<RankReport> reports;
  for (int i = 0; i < 1000; ++i) {
    reports.push_back(i == 1 || (i >= 3 && i <= 7) || i == 500 ? rank(i, {}, 1 + i * 0.001)
                                                               : rank(i, all));
  }
  reports[500] = {.rank = 500, .host = "x"};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_EQ(text,
            "100 tensors have waited for 60 s or longer:\n"
            "  \"t100\", \"t101\", \"t102\", \"t103\", \"t104\", \"t105\", … (100 tensors, 71 s): "
            "ranks 0, 2, 8-499, 501-999 have them, ranks 1, 3-7, 500 do not\n"
            "What the ranks do that did not submit them:\n"
            "  rank 500 (host x): dead: no answer\n"
            "  ranks 1, 3-7 (2 hosts): slow: still submitting other tensors; last submitted \"s\", "
            "last completed \"c\", inside synchronize; last submission 1.0 s ago");
}

TEST(StallReport, NamesStayOnTheirLine) {
  const RankReport reports[] = {rank(0, {{"a\nb" + std::string(500, 'x'), 75}}), rank(1, {})};
  const std::string text = make_stall_report(reports, {}).text;
  EXPECT_THAT(text, HasSubstr("\"a?bxx"));
  EXPECT_LT(text.size(), 600u);
}

TEST(RankReport, ArrivesAsItWasSentUpToTheLimits) {
  RankReport sent = rank(7, {{"a", 1.5}, {"", 0}});
  sent.unlisted = 9;
  Encoder out;
  encode(sent, out);
  Decoder in(out.bytes());
  RankReport got;
  ASSERT_OK(decode(in, got));
  EXPECT_OK(in.finish());
  EXPECT_EQ(got, sent);

  sent.waiting.assign(RankReport::kMostWaiting + 5, {"t", 1});
  sent.waiting[0].name.assign(9000, 'x');
  Encoder large;
  encode(sent, large);
  Decoder large_in(large.bytes());
  ASSERT_OK(decode(large_in, got));
  EXPECT_EQ(got.waiting.size(), RankReport::kMostWaiting);
  EXPECT_EQ(got.waiting[0].name.size(), RankReport::kLongestName);
  EXPECT_EQ(got.unlisted, 14u);
}

TEST(RankReport, RefusesWhatNoRankSends) {
  Encoder out;
  encode(rank(7, {{"a", 1}}), out);
  for (size_t cut = 0; cut < out.bytes().size(); ++cut) {
    Decoder in(out.bytes().first(cut));
    RankReport got;
    EXPECT_FALSE(decode(in, got).is_ok()) << cut;
  }
  Encoder negative;
  encode(rank(-1, {}), negative);
  Decoder in(negative.bytes());
  RankReport got;
  EXPECT_CODE(StatusCode::kInvalidArgument, decode(in, got));
}

}  // namespace
}  // namespace hvd
