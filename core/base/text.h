// SPDX-License-Identifier: Apache-2.0
// Functions on text that several layers need. All of them are pure: any thread may call them.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

// Space, tab and line ends: what a user may leave around a value.
inline constexpr char kBlanks[] = " \t\r\n";

// `text` without blanks at its start and end: a view of the same memory.
inline std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Changes the letters A to Z only (in the C locale).
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The strings of a container, with `separator` between each two.
template <typename Strings>
std::string join(const Strings& parts, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) text += separator;
    first = false;
    text += part;
  }
  return text;
}

// The parts between the separators. Their number is the number of separators plus one; a part may
// be empty. They are views of the memory of `text`.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace hvd
