// SPDX-License-Identifier: Apache-2.0
#include "engine/stall/stall_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/control/tree.h"

namespace hvd {
namespace {

// How long to wait for the reports of each level of the tree below.
constexpr std::chrono::milliseconds kPatiencePerLevel{500};

int levels_below(int rank, const Topology& topology) {
  int levels = 0;
  for (const int child : ControlTree::of(rank, topology).children) {
    levels = std::max(levels, 1 + levels_below(child, topology));
  }
  return levels;
}

Encoder message_of(MessageKind kind) {
  Encoder out;
  out.put(static_cast<uint8_t>(kind));
  return out;
}

}  // namespace

StallWatch::StallWatch(std::chrono::duration<double> warn_after, int rank, const Topology& topology,
                       std::vector<int> job_ranks)
    : warn_after_(warn_after),
      job_ranks_(std::move(job_ranks)),
      parent_(ControlTree::of(rank, topology).parent),
      children_(ControlTree::of(rank, topology).children),
      patience_(kPatiencePerLevel * levels_below(rank, topology)) {}

Status StallWatch::tick(Clock::time_point now, std::chrono::duration<double> oldest,
                        Describe describe, Send send) {
  if (question_ && now >= question_->give_up_at) HVD_TRY(answer(send));
  if (warn_after_.count() <= 0 || oldest < warn_after_) return Status::ok();
  if (last_alarm_ && now - *last_alarm_ < warn_after_) return Status::ok();
  return alarm(now, describe, send);
}

// Several ranks notice the same stall: their alarms within one period count as one.
Status StallWatch::alarm(Clock::time_point now, Describe describe, Send send) {
  last_alarm_ = now;
  if (!is_coordinator()) {
    return send(parent_, message_of(MessageKind::kAlarm).bytes(), Urgency::kUrgent);
  }
  return question_ ? Status::ok() : ask(++questions_, now, describe, send);
}

Status StallWatch::receive(int from, ConstBytes message, Clock::time_point now, Describe describe,
                           Send send) {
  HVD_TRY_ASSIGN(const MessageKind kind, kind_of(message));
  Decoder in(message.subspan(1));
  uint64_t number = 0;
  switch (kind) {
    case MessageKind::kAlarm:
      HVD_TRY(in.finish());
      if (last_alarm_ && now - *last_alarm_ < warn_after_ / 2) return Status::ok();
      return alarm(now, describe, send);
    case MessageKind::kQuestion:
      HVD_TRY(in.get(number));
      HVD_TRY(in.finish());
      return ask(number, now, describe, send);
    case MessageKind::kReports: break;
    default:
      return internal_error(fmt::format("rank {} sent a message that it must not send", from));
  }
  std::vector<RankReport> reports;
  uint32_t count = 0;
  HVD_TRY(in.get(number));
  HVD_TRY(in.get(count));
  for (uint32_t i = 0; i < count; ++i) HVD_TRY(decode(in, reports.emplace_back()));
  HVD_TRY(in.finish());
  if (!question_ || question_->number != number || question_->missing == 0) return Status::ok();
  for (RankReport& report : reports) question_->reports.push_back(std::move(report));
  if (--question_->missing == 0) return answer(send);
  return Status::ok();
}

Status StallWatch::ask(uint64_t number, Clock::time_point now, Describe describe, Send send) {
  question_ = Question{number, children_.size(), now + patience_, {}};
  question_->reports.push_back(describe());
  Encoder out = message_of(MessageKind::kQuestion);
  out.put(number);
  for (const int child : children_) HVD_TRY(send(child, out.bytes(), Urgency::kUrgent));
  return children_.empty() ? answer(send) : Status::ok();
}

Status StallWatch::answer(Send send) {
  Question asked = std::move(*question_);
  question_.reset();
  if (!is_coordinator()) {
    Encoder out = message_of(MessageKind::kReports);
    out.put(asked.number).put(static_cast<uint32_t>(asked.reports.size()));
    for (const RankReport& report : asked.reports) encode(report, out);
    return send(parent_, out.bytes(), Urgency::kUrgent);
  }
  for (const int rank : job_ranks_) {
    const auto same = [rank](const RankReport& report) { return report.rank == rank; };
    if (std::any_of(asked.reports.begin(), asked.reports.end(), same)) continue;
    RankReport silent;
    silent.rank = rank;
    asked.reports.push_back(std::move(silent));
  }
  answers_ = std::move(asked.reports);
  return Status::ok();
}

}  // namespace hvd
