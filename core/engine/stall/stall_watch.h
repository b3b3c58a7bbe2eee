// SPDX-License-Identifier: Apache-2.0
// Finds out why a tensor waits, by asking every rank what it is doing; stall_report.h then says who
// is slow, who is dead and who waits for something else. A state machine without I/O: time and
// messages in, messages and answers out.
//
// Any rank whose tensor waits too long raises an alarm, which goes up the tree; the coordinator may
// not have the tensor itself. It then asks all ranks, and their answers come up the tree together.
// A rank that does not answer in time is reported as such.
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
  // What this rank can say about itself.
  using Describe = FunctionRef<RankReport()>;
  using Send = FunctionRef<Status(int to, ConstBytes message, Urgency urgency)>;

  // Alarms come after `warn_after` of waiting, and again after each such time; never if it is 0.
  StallWatch(std::chrono::duration<double> warn_after, int rank, const Topology& topology,
             std::vector<int> job_ranks);

  // Time has passed; `oldest` is how long the oldest tensor of this rank has waited.
  Status tick(Clock::time_point now, std::chrono::duration<double> oldest, Describe describe,
              Send send);
  // A message of one of the kinds kAlarm, kQuestion and kReports.
  Status receive(int from, ConstBytes message, Clock::time_point now, Describe describe, Send send);

  // At the coordinator: what all ranks have answered, once; also of those that have not.
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
  // Passes on what has come so far.
  Status answer(Send send);

  const std::chrono::duration<double> warn_after_;
  const std::vector<int> job_ranks_;
  int parent_;
  std::vector<int> children_;
  // Longer the more levels are below, so that the answers of those who gave up still count.
  Clock::duration patience_;

  std::optional<Clock::time_point> last_alarm_;
  uint64_t questions_ = 0;
  std::optional<Question> question_;
  std::optional<std::vector<RankReport>> answers_;
};

}  // namespace hvd
