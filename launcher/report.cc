// SPDX-License-Identifier: Apache-2.0
#include "launcher/report.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "launcher/supervision.h"

namespace hvd::launcher {
namespace {

// How the ranks other than `failed_rank` ended.
std::string describe_others(const Supervision& job, int failed_rank) {
  // SIGTERM and SIGKILL are assumed to be the launcher's own; other signals are failures.
  std::vector<int> well;
  std::vector<int> stopped;
  std::vector<int> killed;
  std::vector<int> failed;
  std::vector<int> unknown;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    const int rank = static_cast<int>(i);
    const std::optional<int> status = job.ranks()[i].status;
    if (rank == failed_rank) continue;
    if (!status.has_value()) {
      unknown.push_back(rank);
    } else if (*status == 0) {
      well.push_back(rank);
    } else if (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGTERM) {
      stopped.push_back(rank);
    } else if (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) {
      killed.push_back(rank);
    } else {
      failed.push_back(rank);
    }
  }
  std::string text;
  const auto add = [&](const std::vector<int>& ranks, const char* what) {
    if (!ranks.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", ranges(ranks), what);
  };
  add(well, "had ended well");
  add(stopped, "were stopped by SIGTERM");
  add(killed, "were killed by SIGKILL");
  add(failed, "failed as well");
  add(unknown, "were lost with their host or had not started");
  return text;
}

}  // namespace

// sigabbrev_np() is thread-safe and not translated, other than strsignal().
std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string describe_exit(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  return fmt::format("killed by {} (exit code {}){}", signal_name(WTERMSIG(status)),
                     exit_code_of(status), WCOREDUMP(status) ? ", core dumped" : "");
}

std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += std::to_string(ranks[first]);
    if (last > first) text += fmt::format("{}{}", last > first + 1 ? "-" : ",", ranks[last]);
    first = last + 1;
  }
  return text;
}

// The first sentence has the wording of Horovod 0.28, which programs match.
std::string failure_report(const Supervision& job, const std::vector<std::string>& last_lines) {
  if (!job.failed_rank().has_value()) return {};
  const int rank = *job.failed_rank();
  const RankState& state = job.ranks()[static_cast<size_t>(rank)];
  std::string text = fmt::format(
      "\nHorovod detected that one or more processes exited with non-zero status. The first one:\n"
      "  rank:       {}\n  host:       {}\n  pid:        {}\n  ended:      {}\n",
      rank, job.hosts()[state.host].name, state.pid, describe_exit(*state.status));
  const std::string others = describe_others(job, rank);
  if (!others.empty()) text += fmt::format("  the others: {}\n", others);
  if (last_lines.empty()) return text + "It wrote nothing to standard error.";
  text += fmt::format("The last {} it wrote to standard error:",
                      last_lines.size() == 1 ? "line" : fmt::format("{} lines", last_lines.size()));
  for (const std::string& line : last_lines) text += "\n  | " + line;
  return text;
}

}  // namespace hvd::launcher
