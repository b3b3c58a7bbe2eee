// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervision.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/report.h"

namespace hvd::launcher {
namespace {

// Time for agents to report their end after an immediate SIGKILL (a second signal).
constexpr Timeouts::Time kReportAfterKillTimeout{2'000};

double in_seconds(Timeouts::Time time) { return static_cast<double>(time.count()) / 1000; }

// SIGTERM does not count, because the launcher itself sends it, and so does a user who stops the
// job.
bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM; }

}  // namespace

Supervision::Supervision(std::vector<HostPlan> hosts, Timeouts timeouts, Time now)
    : plans_(std::move(hosts)),
      timeouts_(timeouts),
      hosts_(plans_.size(), HostState{Stage::kConnecting, now}),
      start_by_(now + timeouts.start) {
  for (size_t host = 0; host < plans_.size(); ++host) {
    for (const int rank : plans_[host].ranks) {
      ranks_.resize(std::max(ranks_.size(), static_cast<size_t>(rank) + 1));
      ranks_[static_cast<size_t>(rank)].host = host;
    }
  }
}

// JobRunner prints it, in the order of the decisions.
void Supervision::print_message(std::string text) {
  decisions_.push_back({Decision::Kind::kPrint, 0, {}, std::move(text)});
}

// The agent of a dropped host loses its connection and kills its ranks by itself.
void Supervision::drop(size_t host) {
  hosts_[host].stage = Stage::kEnded;
  decisions_.push_back({Decision::Kind::kDrop, host, {}, {}});
}

bool Supervision::all_ready() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const HostState& host) { return host.stage == Stage::kReady; });
}

void Supervision::host_ready(size_t host, Time now) {
  if (hosts_[host].stage != Stage::kConnecting) return;
  hosts_[host] = {Stage::kReady, now};
  check_start(now);
}

// Before the start of the ranks the host is dropped and the job cannot start. After the start the
// agent stops its ranks and then sends AgentDone, so the host stays until host_done().
void Supervision::host_failed(size_t host, const std::string& why, Time now) {
  if (hosts_[host].stage == Stage::kEnded) return;
  print_message(fmt::format("horovodrun: host {}: {}", plans_[host].name, why));
  failed_ = true;
  if (hosts_[host].stage == Stage::kRunning) return fail(now);
  drop(host);
  // Keep waiting for the other hosts, so that one attempt reports every host with a problem.
  start_by_ = std::min(start_by_, now + timeouts_.after_unreachable);
  check_start(now);
}

// Starts the ranks when every host is ready; ends the job when every host has answered and one of
// them cannot be used. Does nothing while a host is still connecting.
void Supervision::check_start(Time now) {
  const auto connecting = [](const HostState& host) { return host.stage == Stage::kConnecting; };
  if (end_by_.has_value() || std::any_of(hosts_.begin(), hosts_.end(), connecting)) return;
  if (!all_ready()) {
    if (std::any_of(hosts_.begin(), hosts_.end(),
                    [](const HostState& host) { return host.stage == Stage::kRunning; })) {
      return;
    }
    print_message("horovodrun: nothing was started, because not every host can be used.");
    return stop(timeouts_.grace, now);
  }
  for (size_t host = 0; host < hosts_.size(); ++host) {
    hosts_[host].stage = Stage::kRunning;
    decisions_.push_back({Decision::Kind::kStart, host, {}, {}});
  }
}

void Supervision::host_done(size_t host, Time now) {
  if (hosts_[host].stage == Stage::kEnded) return;
  hosts_[host].stage = Stage::kEnded;
  decisions_.push_back({Decision::Kind::kDrop, host, {}, {}});
  for (const int rank : plans_[host].ranks) {
    if (end_by_.has_value() || ranks_[static_cast<size_t>(rank)].status.has_value()) continue;
    print_message(fmt::format("horovodrun: host {} reports its end, but rank {} has not ended",
                              plans_[host].name, rank));
    return fail(now);
  }
}

// The connection to the agent has ended without AgentDone. If its ranks ran, the job fails; the
// agent, if it still runs, kills them. Before the start of the ranks, the loss counts like
// host_failed().
void Supervision::lose(size_t host, const std::string& why, Timeouts::Time grace, Time now) {
  if (hosts_[host].stage == Stage::kEnded) return;
  const bool running = hosts_[host].stage == Stage::kRunning;
  drop(host);
  if (end_by_.has_value()) return;
  failed_ = true;
  print_message(
      fmt::format("horovodrun: host {} is lost: {}; {} on it", plans_[host].name, why,
                  running ? "ranks " + ranges(plans_[host].ranks) + " ran" : "no rank ran yet"));
  if (running) return fail(grace, now);
  check_start(now);
}

void Supervision::heard_from(size_t host, Time now) { hosts_[host].heard = now; }

void Supervision::rank_started(int rank, int pid) { ranks_[static_cast<size_t>(rank)].pid = pid; }

// The first rank that fails ends the job. Within failure_window a rank that was killed by a signal
// replaces a rank that exited by itself, because the exit is usually a consequence of the loss of
// the killed rank.
void Supervision::rank_exited(int rank, int status, Time now) {
  ranks_[static_cast<size_t>(rank)].status = status;
  if (status == 0) return;
  if (!end_by_.has_value()) {
    failed_rank_ = rank;
    failed_rank_final_at_ = now + timeouts_.failure_window;
    return fail(now);
  }
  if (!failed_rank_final_at_.has_value() || now > *failed_rank_final_at_) return;
  const int first = *ranks_[static_cast<size_t>(*failed_rank_)].status;
  if (was_killed(status) && !was_killed(first)) failed_rank_ = rank;
}

void Supervision::fail(Timeouts::Time grace, Time now) {
  failed_ = true;
  if (!end_by_.has_value()) stop(grace, now);
}

// The first signal stops the job with the grace period; a second signal kills it at once.
void Supervision::interrupted(int signal, Time now) {
  const bool again = end_by_.has_value();
  if (!again) signal_ = signal;
  print_message(fmt::format("horovodrun: {}: {}", signal_name(signal),
                            again ? "killing what is left of the job"
                                  : "stopping the job; a second signal kills it at once"));
  stop(again ? Timeouts::Time(0) : timeouts_.grace, now);
}

// The exit code is 128 + SIGPIPE, as for any program in a pipe whose reader has ended.
void Supervision::output_failed(const std::string& why, Time now) {
  if (end_by_.has_value()) return;
  signal_ = SIGPIPE;
  print_message(fmt::format("horovodrun: standard output failed ({}): stopping the job", why));
  stop(timeouts_.grace, now);
}

// May be called again with a shorter grace period: the earlier of the two deadlines counts.
void Supervision::stop(Timeouts::Time grace, Time now) {
  const Time end =
      now + (grace.count() > 0 ? grace + timeouts_.final_report : kReportAfterKillTimeout);
  end_by_ = std::min(end_by_.value_or(end), end);
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].stage == Stage::kRunning) {
      decisions_.push_back({Decision::Kind::kStop, host, grace, {}});
    } else if (hosts_[host].stage != Stage::kEnded) {
      drop(host);
    }
  }
}

void Supervision::resumed(Time now) {
  for (HostState& host : hosts_) host.heard = now;
}

// Local agents are not watched: the kernel closes their pipe when they end. A remote host sends
// Alive only after it is ready.
bool Supervision::is_watched(size_t host) const {
  return plans_[host].remote &&
         (hosts_[host].stage == Stage::kReady || hosts_[host].stage == Stage::kRunning);
}

// The short grace keeps the total below ten seconds, as in agent.cc.
void Supervision::check_silence(Time now) {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (is_watched(host) && now >= hosts_[host].heard + timeouts_.silence) {
      lose(host, fmt::format("nothing was heard from it for {} s", in_seconds(timeouts_.silence)),
           timeouts_.short_grace, now);
    }
  }
}

// Called when the failed rank is final. The first line has the wording of Horovod 0.28.
void Supervision::announce_failed_rank() {
  failed_rank_final_at_.reset();
  const size_t rank = static_cast<size_t>(*failed_rank_);
  print_message(fmt::format("Process {} exit with status code {}.", rank,
                            exit_code_of(*ranks_[rank].status)));
  const auto left = std::count_if(ranks_.begin(), ranks_.end(),
                                  [](const RankState& each) { return !each.status.has_value(); });
  if (left > 0)
    print_message(fmt::format("horovodrun: stopping the other ranks ({} still run).", left));
}

// Applies all timeouts: the failed rank, the start, silence, and the final reports of agents.
void Supervision::tick(Time now) {
  if (failed_rank_final_at_.has_value() && (now >= *failed_rank_final_at_ || finished()))
    announce_failed_rank();
  if (!end_by_.has_value() && now >= start_by_) {
    for (size_t host = 0; host < hosts_.size(); ++host) {
      if (hosts_[host].stage != Stage::kConnecting) continue;
      host_failed(host, "no answer in time; check that ssh reaches it, or raise --start-timeout",
                  now);
    }
  }
  check_silence(now);
  if (!end_by_.has_value() || now < *end_by_) return;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].stage == Stage::kEnded) continue;
    print_message(fmt::format(
        "horovodrun: host {} has not reported in time that its ranks have ended; its agent kills "
        "them when this program exits",
        plans_[host].name));
    drop(host);
  }
}

Deadline Supervision::next_deadline() const {
  Deadline next = Deadline::never();
  const auto consider = [&](Time when) { next = earlier(next, Deadline::at(when)); };
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].stage == Stage::kConnecting) consider(start_by_);
    if (is_watched(host)) consider(hosts_[host].heard + timeouts_.silence);
  }
  if (failed_rank_final_at_.has_value()) consider(*failed_rank_final_at_);
  if (end_by_.has_value()) consider(*end_by_);
  return next;
}

std::vector<Decision> Supervision::take_decisions() { return std::exchange(decisions_, {}); }

bool Supervision::finished() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const HostState& host) { return host.stage == Stage::kEnded; });
}

int Supervision::exit_code() const {
  if (signal_ != 0) return 128 + signal_;
  return failed_ ? 1 : 0;
}

}  // namespace hvd::launcher
