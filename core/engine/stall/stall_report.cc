// SPDX-License-Identifier: Apache-2.0
#include "engine/stall/stall_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace hvd {
namespace {

constexpr size_t kNamesPerGroup = 6;
constexpr size_t kMostGroups = 16;
constexpr size_t kLongestShownName = 200;

using Ranks = std::vector<int>;

struct Stalled {
  double seconds = 0;  // on the rank that has waited longest
  Ranks have;
  Ranks missing;
};
using StalledByName = std::map<std::string, Stalled>;

bool is_expired(const Stalled& tensor, StallTimes times) {
  return times.shutdown_seconds > 0 && tensor.seconds >= times.shutdown_seconds;
}

// The name in quotes, on one line and cut if it is long.
std::string quoted(std::string_view name) {
  std::string text(name.substr(0, kLongestShownName));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return fmt::format("\"{}{}\"", text, name.size() > kLongestShownName ? "…" : "");
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

// Tensors that have waited for `seconds_at_least` on some rank.
StalledByName find_waiting(std::span<const RankReport> reports, double seconds_at_least) {
  StalledByName found;
  for (const RankReport& report : reports) {
    for (const WaitingTensor& tensor : report.waiting) {
      if (tensor.seconds < seconds_at_least) continue;
      double& seconds = found[tensor.name].seconds;
      seconds = std::max(seconds, tensor.seconds);
    }
  }
  for (const RankReport& report : reports) {
    std::set<std::string_view> names;
    for (const WaitingTensor& tensor : report.waiting) names.insert(tensor.name);
    for (auto& [name, stalled] : found) {
      if (names.contains(name)) {
        stalled.have.push_back(report.rank);
      } else if (report.unlisted == 0 &&
                 !report.joined) {  // otherwise it may be one of the unlisted
        stalled.missing.push_back(report.rank);
      }
    }
  }
  for (auto& [name, stalled] : found) {
    std::ranges::sort(stalled.have);
    std::ranges::sort(stalled.missing);
  }
  return found;
}

std::string names_text(const std::vector<std::string_view>& names, double seconds) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesPerGroup); ++i) {
    text += (i > 0 ? ", " : "") + quoted(names[i]);
  }
  if (names.size() > kNamesPerGroup) text += ", …";
  return names.size() == 1
             ? fmt::format("{} ({})", text, seconds_text(seconds))
             : fmt::format("{} ({} tensors, {})", text, names.size(), seconds_text(seconds));
}

// One line for all tensors that the same ranks have.
std::string tensors_text(const StalledByName& stalled, StallTimes times) {
  struct Group {
    std::vector<std::string_view> names;
    double seconds = 0;
  };
  std::map<std::tuple<Ranks, Ranks, bool>, Group> groups;
  for (const auto& [name, tensor] : stalled) {
    Group& group = groups[{tensor.have, tensor.missing, is_expired(tensor, times)}];
    group.names.push_back(name);
    group.seconds = std::max(group.seconds, tensor.seconds);
  }
  std::string text;
  size_t shown = 0;
  for (const auto& [key, group] : groups) {
    if (++shown > kMostGroups) {
      return text + fmt::format("\n  … and {} more groups of tensors", groups.size() - kMostGroups);
    }
    const auto& [have, missing, expired] = key;
    const char* them = group.names.size() == 1 ? "it" : "them";
    text += fmt::format("\n  {}: ", names_text(group.names, group.seconds));
    text += missing.empty()
                ? fmt::format("every rank has submitted {}; carrying {} out takes this long", them,
                              them)
                : fmt::format("{} {} {}, {} {} not", text_of_ranks(have),
                              have.size() == 1 ? "has" : "have", them,
                              text_of_ranks(missing, expired ? "!" : ""),
                              missing.size() == 1 ? "does" : "do");
  }
  return text;
}

// A rank that has submitted nothing for this long is silent, and only a wait of at least this
// length can explain the silence. Half the warning time: the ranks that wait for it have waited for
// all of the warning time.
double silence_of(StallTimes times) { return times.warning_seconds / 2; }

// The input of the verdicts.
struct Facts {
  StallTimes times;
  StalledByName stalled;  // to be reported
  StalledByName waiting;  // long enough to explain a silence
};

bool misses(const StalledByName::value_type& tensor, int rank) {
  return std::ranges::binary_search(tensor.second.missing, rank);
}

// Of the tensors that the rank of `report` waits for: the one that has waited longest among those
// that are missing on a rank which itself waits for this rank.
const StalledByName::value_type* diverging_wait(const RankReport& report, const Facts& facts) {
  if (report.seconds_since_last_submission < silence_of(facts.times)) return nullptr;
  std::set<int> waiting_for_it;
  for (const auto& tensor : facts.stalled) {
    if (!misses(tensor, report.rank)) continue;
    waiting_for_it.insert(tensor.second.have.begin(), tensor.second.have.end());
  }
  const StalledByName::value_type* found = nullptr;
  double longest = 0;
  for (const WaitingTensor& wait : report.waiting) {
    if (wait.seconds < silence_of(facts.times) || wait.seconds <= longest) continue;
    const auto tensor = facts.waiting.find(wait.name);
    if (std::ranges::none_of(tensor->second.missing,
                             [&](int rank) { return waiting_for_it.contains(rank); })) {
      continue;
    }
    longest = wait.seconds;
    found = &*tensor;
  }
  return found;
}

// What the rank does instead of submitting the tensors that other ranks wait for. Ranks with equal
// texts share a line, so the text contains no times, which always differ.
std::string verdict(const RankReport& report, const Facts& facts) {
  if (!report.answered) return "dead: no answer";
  const std::string doing = fmt::format(
      "last submitted {}, last completed {}, {}",
      report.last_submitted.empty() ? "nothing" : quoted(report.last_submitted),
      report.last_completed.empty() ? "nothing" : quoted(report.last_completed),
      report.inside_call.empty() ? "outside of Horovod" : "inside " + report.inside_call);
  if (const auto* wait = diverging_wait(report, facts); wait != nullptr) {
    const auto expected = std::ranges::find_if(
        facts.stalled, [&report](const auto& tensor) { return misses(tensor, report.rank); });
    const Ranks& others = expected->second.have;
    return fmt::format("diverged: waiting for {} ({} did not submit it) while {} {} for {}; {}",
                       quoted(wait->first), text_of_ranks(wait->second.missing),
                       text_of_ranks(others), others.size() == 1 ? "waits" : "wait",
                       quoted(expected->first), doing);
  }
  const bool silent = report.seconds_since_last_submission >= silence_of(facts.times);
  return fmt::format("slow: {}; {}",
                     silent ? "nothing submitted for a while" : "still submitting other tensors",
                     doing);
}

std::string culprits_text(std::span<const RankReport> reports, const Facts& facts) {
  std::set<int> missing;
  for (const auto& [name, tensor] : facts.stalled) {
    missing.insert(tensor.missing.begin(), tensor.missing.end());
  }
  struct Group {
    Ranks ranks;
    std::set<std::string> hosts;
    double least_silence = 0;
    double most_silence = 0;
  };
  std::map<std::string, Group> groups;
  for (const RankReport& report : reports) {
    if (!missing.contains(report.rank)) continue;
    Group& group = groups[verdict(report, facts)];
    const double silence = report.seconds_since_last_submission;
    group.least_silence = group.ranks.empty() ? silence : std::min(group.least_silence, silence);
    group.most_silence = std::max(group.most_silence, silence);
    group.ranks.push_back(report.rank);
    group.hosts.insert(report.host);
  }
  std::string text;
  size_t shown = 0;
  for (const auto& [what, group] : groups) {
    if (++shown > kMostGroups) {
      return text + fmt::format("\n  … and {} more groups of ranks", groups.size() - kMostGroups);
    }
    const std::string hosts = group.hosts.size() == 1 ? fmt::format("host {}", *group.hosts.begin())
                                                      : fmt::format("{} hosts", group.hosts.size());
    text += fmt::format("\n  {} ({}): {}", text_of_ranks(group.ranks), hosts, what);
    if (what.starts_with("dead")) continue;
    const std::string least = seconds_text(group.least_silence);
    const std::string most = seconds_text(group.most_silence);
    text += fmt::format("; last submission {} ago",
                        least == most ? least : fmt::format("{} to {}", least, most));
  }
  return text;
}

}  // namespace

std::string text_of_ranks(std::vector<int> ranks, std::string_view mark) {
  std::ranges::sort(ranks);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += fmt::format("{}{}", ranks[i], mark);
    // "1, 2" is as short as "1-2" and shows more plainly that there are two.
    if (last == i + 1) text += fmt::format(", {}{}", ranks[last], mark);
    if (last > i + 1) text += fmt::format("-{}{}", ranks[last], mark);
    i = last + 1;
  }
  return text;
}

StallReport make_stall_report(std::span<const RankReport> reports, StallTimes times) {
  Facts facts{.times = times, .stalled = {}, .waiting = find_waiting(reports, silence_of(times))};
  StallReport result;
  for (const auto& [name, tensor] : facts.waiting) {
    if (tensor.seconds < times.warning_seconds) continue;
    facts.stalled.emplace(name, tensor);
    if (is_expired(tensor, times)) result.expired.push_back(name);
  }
  const size_t count = facts.stalled.size();
  if (count == 0) return result;
  result.text =
      fmt::format("{} {} waited for {} or longer:", count,
                  count == 1 ? "tensor has" : "tensors have", seconds_text(times.warning_seconds));
  result.text += tensors_text(facts.stalled, times);
  if (const std::string culprits = culprits_text(reports, facts); !culprits.empty()) {
    result.text += "\nWhat the ranks do that did not submit them:" + culprits;
  }
  return result;
}

}  // namespace hvd
