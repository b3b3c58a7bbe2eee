// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

namespace hvd::launcher {
namespace {

constexpr char kBlanks[] = " \t\r\n";

// from_chars() ignores the locale, but does not accept a plus sign.
template <typename T>
std::optional<T> parse(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Levenshtein distance: the number of letters to insert, delete or replace.
size_t distance(std::string_view a, std::string_view b) {
  // One row of the table at a time; `diagonal` is the value to the upper left.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t end = std::min(text.find_first_of(kBlanks), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return found;
}

std::optional<int64_t> parse_integer(std::string_view text) { return parse<int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Result<std::vector<std::string>> split_like_shell(std::string_view text) {
  std::vector<std::string> found;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = std::string_view(kBlanks).find(c) != std::string_view::npos;
    if (quote == 0 && blank) {
      in_word = false;
      continue;
    }
    if (!in_word) found.emplace_back();
    in_word = true;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      // Within double quotes a backslash escapes only a quote or another backslash.
      const char next = text[i + 1];
      if (quote == 0 || next == '"' || next == '\\') ++i;
      found.back() += text[i];
    } else {
      found.back() += c;
    }
  }
  if (quote != 0) {
    return invalid_argument(fmt::format("\"{}\": a quote ({}) is left open", text, quote));
  }
  return found;
}

std::string quoted_for_shell(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  // Within single quotes every character except the quote itself is literal.
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::optional<std::string_view> closest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> best;
  // Up to a third of the letters may be a typing error; more is another word.
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view candidate : candidates) {
    if (const size_t d = distance(word, candidate); d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hvd::launcher
