// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/plan/flags.h"
#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kHelpColumn = 34;

constexpr std::string_view kBegin = "<!-- flags: written by `make docs` -->\n";
constexpr std::string_view kEnd = "<!-- end of flags -->\n";

// "-np, --num-proc N", "--autotune, --no-autotune".
std::string left_side(const Flag& flag) {
  std::string text(flag.names);
  if (!flag.extras.off.empty()) text += fmt::format(", {}", flag.extras.off);
  if (!flag.value.name.empty()) text += fmt::format(" {}", flag.value.name);
  return text;
}

// Breaks `text` into lines up to column kWidth; all lines except the first are indented to
// kHelpColumn.
std::string wrapped(std::string_view text) {
  std::string result;
  size_t column = kHelpColumn;
  for (const std::string_view word : words(text)) {
    if (column + word.size() + 1 > kWidth) {
      result += "\n" + std::string(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

// Markdown code, or nothing for an empty cell.
std::string quoted_code(std::string_view text) {
  return text.empty() ? "" : fmt::format("`{}`", text);
}

std::string names_as_code(const Flag& flag) {
  std::string text;
  const auto add = [&](std::string_view names) {
    for (const std::string_view name : names_in(names)) {
      text += (text.empty() ? "" : ", ") + quoted_code(name);
    }
  };
  add(flag.names);
  add(flag.extras.off);
  return text;
}

// A Markdown table per section.
std::string flag_tables() {
  std::string page;
  std::string_view section;
  for (const Flag& flag : flags()) {
    if (flag.section != section) {
      section = flag.section;
      page += fmt::format(
          "\n### {}\n\n| Flag | Value | Variable of the ranks | Config file | Meaning |\n"
          "|---|---|---|---|---|\n",
          section);
    }
    page += fmt::format("| {} | {} | {} | {} | {} |\n", names_as_code(flag),
                        is_switch(flag) ? "" : accepted_by(flag), quoted_code(flag.extras.variable),
                        quoted_code(flag.extras.config_key), flag.help);
  }
  return page + "\n";
}

}  // namespace

std::string help_text() {
  std::string page =
      "Usage: horovodrun [flags] command [arguments of the command]\n\n"
      "Starts a job of several processes on one or more hosts, prints their output, and stops all\n"
      "of them when one fails.\n\n"
      "  horovodrun -np 4 python train.py\n"
      "  horovodrun -np 8 -H server1:4,server2:4 python train.py\n";
  std::string_view section;
  for (const Flag& flag : flags()) {
    if (flag.section != section) {
      section = flag.section;
      page += fmt::format("\n{}:\n", section);
    }
    std::string line = "  " + left_side(flag);
    if (line.size() + 2 > kHelpColumn) {
      page += line + "\n";
      line.clear();
    }
    line.resize(kHelpColumn, ' ');
    page += line + wrapped(flag.help) + "\n";
  }
  page +=
      "\nLong names may be abbreviated if the result is unambiguous. Exit codes: 0 if all ranks\n"
      "succeeded, 1 if a rank failed or could not be started, 2 if the command line or a file\n"
      "that it names is wrong, 128 + n if signal n ended horovodrun.\n";
  return page;
}

Result<std::string> with_flag_tables(std::string_view page) {
  const size_t begin = page.find(kBegin);
  const size_t end = page.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return invalid_argument(
        fmt::format("the page lacks one of the marker lines {}and {}", kBegin, kEnd));
  }
  return std::string(page.substr(0, begin + kBegin.size())) + flag_tables() +
         std::string(page.substr(end));
}

}  // namespace hvd::launcher
