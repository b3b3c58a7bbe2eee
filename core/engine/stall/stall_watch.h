// SPDX-License-Identifier: Apache-2.0
// Finds out why a tensor waits: it asks every rank for its RankReport, from which stall_report.h
// derives which ranks are slow, dead or diverged. It is a state machine without I/O: time and
// messages go in, messages and answers come out. Only the thread that runs the engine uses it.
//
//   rank with an old tensor --alarm--> … --alarm--> coordinator
//   coordinator --question--> all ranks, down the tree
//   all ranks --reports--> coordinator; every rank sends those of its subtree in one message
//
// Any rank may raise the alarm, because the coordinator may not have the tensor itself. A rank
// waits for its children for 500 ms per level below it; then it sends the reports that it has, and
// the coordinator reports the other ranks as dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "engine/messages.h"
#include "engine/stall/rank_report.h"
#include "transport/control/doorbell.h"
#include "transport/topology.h"

namespace hvd {

class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // Makes the report of this rank.
  using Describe = FunctionRef<RankReport()>;
  using Send = FunctionRef<Status(int to, ConstBytes message, Urgency urgency)>;

  // Raises an alarm when a tensor has waited for `warn_after`, and again after each such time;
  // never if it is 0. `rank` is a rank of the set, `job_ranks` its ranks in the job.
  StallWatch(std::chrono::duration<double> warn_after, int rank, const Topology& topology,
             std::vector<int> job_ranks);

  // `oldest` is how long the oldest tensor of this rank has waited at `now`.
  Status tick(Clock::time_point now, std::chrono::duration<double> oldest, Describe describe,
              Send send);
  // A message of one of the kinds kAlarm, kQuestion and kReports.
  Status receive(int from, ConstBytes message, Clock::time_point now, Describe describe, Send send);

  // At the coordinator: once for each question, one report for every rank, also for ranks that did
  // not answer.
  std::optional<std::vector<RankReport>> take_answers() {
    return std::exchange(answers_, std::nullopt);
  }

  // Whether answers are outstanding: tick() has to be called soon.
  bool is_waiting() const { return question_.has_value(); }

 private:
  struct Question {
    uint64_t number;
    size_t missing;  // children that have not answered
    Clock::time_point give_up_at;
    std::vector<RankReport> reports;
  };

  bool is_coordinator() const { return parent_ < 0; }
  Status alarm(Clock::time_point now, Describe describe, Send send);
  Status ask(uint64_t number, Clock::time_point now, Describe describe, Send send);
  // Ends the question: sends the reports so far to the parent, or makes them the answers.
  Status answer(Send send);

  const std::chrono::duration<double> warn_after_;
  const std::vector<int> job_ranks_;
  int parent_;
  std::vector<int> children_;
  // Grows with the number of levels below, so that a child that gives up still answers in time.
  Clock::duration patience_;

  std::optional<Clock::time_point> last_alarm_;
  uint64_t questions_ = 0;
  std::optional<Question> question_;
  std::optional<std::vector<RankReport>> answers_;
};

}  // namespace hvd
