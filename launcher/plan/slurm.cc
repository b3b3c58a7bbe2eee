// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// More than any cluster has. Prevents that a mistyped range fills the memory.
constexpr size_t kMaxHosts = 1 << 16;

// The usual form of errors about values.
Status malformed(std::string_view text, std::string_view accepted) {
  return invalid_argument(fmt::format("\"{}\": accepted is {}", text, accepted));
}

// At most nine digits, so that the number fits an int.
bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Expands "01-03,7", the text between brackets, and keeps the number of digits.
bool expand_ranges(std::string_view text, std::vector<std::string>& numbers) {
  for (const std::string_view range : split(text, ',')) {
    const size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    if (!is_digits(first) || !is_digits(last)) return false;
    const int64_t from = *parse_integer(first);
    const int64_t to = *parse_integer(last);
    if (to < from || static_cast<size_t>(to - from) >= kMaxHosts) return false;
    for (int64_t number = from; number <= to; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
    }
  }
  return numbers.size() <= kMaxHosts;
}

// Expands one name with any number of brackets.
bool expand_name(std::string_view text, std::vector<std::string>& names) {
  std::vector<std::string> begun = {""};
  while (!text.empty()) {
    const size_t open = std::min(text.find('['), text.size());
    for (std::string& name : begun) name += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t close = text.find(']');
    std::vector<std::string> numbers;
    if (close == std::string_view::npos || !expand_ranges(text.substr(1, close - 1), numbers)) {
      return false;
    }
    if (begun.size() * numbers.size() > kMaxHosts) return false;
    std::vector<std::string> longer;
    for (const std::string& name : begun) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    begun = std::move(longer);
    text.remove_prefix(close + 1);
  }
  if (!std::all_of(begun.begin(), begun.end(), is_host_name)) return false;
  names.insert(names.end(), begun.begin(), begun.end());
  return names.size() <= kMaxHosts;
}

// Splits at commas outside of brackets.
std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

Result<std::vector<std::string>> expand_node_list(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view part : split_names(text)) {
    if (!expand_name(trimmed(part), names)) {
      return malformed(text, "a list of hosts, as in n[01-16],gpu1");
    }
  }
  return names;
}

Result<std::vector<int>> expand_task_counts(std::string_view text) {
  std::vector<int> counts;
  for (std::string_view part : split(text, ',')) {
    std::string_view times = "1";
    if (const size_t open = part.find("(x");
        open != std::string_view::npos && part.ends_with(')')) {
      times = part.substr(open + 2, part.size() - open - 3);
      part = part.substr(0, open);
    }
    if (!is_digits(part) || !is_digits(times)) {
      return malformed(text, "tasks per host, as in 4(x2),3");
    }
    const auto repeat = static_cast<size_t>(*parse_integer(times));
    if (repeat > kMaxHosts) return malformed(text, "tasks per host, as in 4(x2),3");
    counts.insert(counts.end(), repeat, static_cast<int>(*parse_integer(part)));
  }
  return counts;
}

Result<Allocation> slurm_allocation(const SystemInfo& system) {
  const auto names = expand_node_list(system.variable("SLURM_JOB_NODELIST"));
  if (!names.is_ok()) return names.status().with_context("SLURM_JOB_NODELIST");
  const std::string tasks = system.variable("SLURM_TASKS_PER_NODE");
  std::vector<int> counts(names->size(), 1);
  if (!tasks.empty()) {
    const auto expanded = expand_task_counts(tasks);
    if (!expanded.is_ok()) return expanded.status().with_context("SLURM_TASKS_PER_NODE");
    counts = *expanded;
  }
  // Under srun, SLURM_TASKS_PER_NODE may describe the step, but SLURM_JOB_NODELIST the job.
  if (counts.size() != names->size()) {
    return invalid_argument(fmt::format(
        "SLURM_JOB_NODELIST names {} hosts, but SLURM_TASKS_PER_NODE={} describes {}: start "
        "horovodrun from the batch script and not by srun, or give hosts with -H",
        names->size(), tasks, counts.size()));
  }
  Allocation allocation{.scheduler = "Slurm"};
  for (size_t i = 0; i < counts.size(); ++i) add_host(allocation.hosts, (*names)[i], counts[i]);
  allocation.num_proc = slots_of(allocation.hosts);
  if (const std::string total = system.variable("SLURM_NTASKS"); !total.empty()) {
    const auto number = parse_integer(total);
    if (!number || *number < 1 || *number > 1 << 20) {
      return malformed(total, "a whole number from 1").with_context("SLURM_NTASKS");
    }
    allocation.num_proc = static_cast<int>(*number);
  }
  return allocation;
}

}  // namespace hvd::launcher
