// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// Readers, one per type of field. They return false if the text is not accepted. -----------------

// Both limits are inclusive.
bool in_range(const Flag& flag, double value) {
  return value >= flag.value.least && value <= flag.value.most;
}

// Accepts the words of YAML 1.1, in upper or lower case, and 1 and 0: users write all of them in
// config files.
bool read(const Flag& /*flag*/, std::string_view text, Options::Switch& field) {
  const std::string word = lower_case(text);
  const bool yes = word == "true" || word == "yes" || word == "on" || word == "1";
  const bool no = word == "false" || word == "no" || word == "off" || word == "0";
  if (!yes && !no) return false;
  field = yes;
  return true;
}

bool read(const Flag& flag, std::string_view text, Options::Integer& field) {
  const auto number = parse_integer(text);
  if (!number || !in_range(flag, static_cast<double>(*number))) return false;
  field = static_cast<int>(*number);
  return true;
}

bool read(const Flag& flag, std::string_view text, Options::Number& field) {
  const auto number = parse_number(text);
  if (!number || !in_range(flag, *number)) return false;
  field = *number;
  return true;
}

bool read(const Flag& flag, std::string_view text, Options::Text& field) {
  if (flag.value.accepts != nullptr && !flag.value.accepts(text)) return false;
  field = text;
  return true;
}

// Adds to the items that are already there: the flag can be repeated.
bool read(const Flag& /*flag*/, std::string_view text, Options::List& field) {
  for (const std::string_view part : split(text, ',')) {
    const std::string_view item = trimmed(part);
    if (item.empty()) return false;
    if (std::find(field.begin(), field.end(), item) == field.end()) field.emplace_back(item);
  }
  return true;
}

// Two whole numbers, separated by blanks or a comma, the smaller one first.
bool read(const Flag& flag, std::string_view text, Options::Pair& field) {
  std::string blanks(text);
  std::replace(blanks.begin(), blanks.end(), ',', ' ');
  const auto parts = words(blanks);
  if (parts.size() != 2) return false;
  std::array<int, 2> pair{};
  for (size_t i = 0; i < pair.size(); ++i) {
    const auto number = parse_integer(parts[i]);
    if (!number || !in_range(flag, static_cast<double>(*number))) return false;
    pair[i] = static_cast<int>(*number);
  }
  if (pair[0] > pair[1]) return false;
  field = pair;
  return true;
}

// Writers, one per type of field: the value of the environment variable. -------------------------

std::string text_of(const Flag& /*flag*/, const Options::Switch& field) {
  return *field ? "1" : "0";
}
std::string text_of(const Flag& flag, const Options::Integer& field) {
  return fmt::format("{}", static_cast<int64_t>(*field) * flag.extras.factor);
}
std::string text_of(const Flag& /*flag*/, const Options::Number& field) {
  return fmt::format("{}", *field);
}
std::string text_of(const Flag& /*flag*/, const Options::Text& field) { return *field; }
std::string text_of(const Flag& /*flag*/, const Options::List& field) { return join(field, ","); }
std::string text_of(const Flag& /*flag*/, const Options::Pair& field) {
  return fmt::format("{} {}", (*field)[0], (*field)[1]);
}

template <typename T>
bool has_value(const std::optional<T>& field) {
  return field.has_value();
}
bool has_value(const Options::List& field) { return !field.empty(); }

// An upper limit of INT_MAX means none and is not mentioned.
std::string range_text(const Flag& flag, std::string_view what) {
  std::string text = fmt::format("{} from {}", what, flag.value.least);
  if (flag.value.most < std::numeric_limits<int>::max())
    text += fmt::format(" to {}", flag.value.most);
  return text;
}

template <typename T>
bool holds(const Flag& flag) {
  return std::holds_alternative<T Options::*>(flag.field);
}

}  // namespace

const Flag& flag_named(std::string_view name) {
  for (const Flag& flag : flags()) {
    for (const std::string_view own : names_in(flag.names)) {
      if (own == name) return flag;
    }
  }
  check_failed(__FILE__, __LINE__, name);
}

std::vector<std::string_view> names_in(std::string_view names) {
  std::vector<std::string_view> found;
  if (names.empty()) return found;
  for (const std::string_view name : split(names, ',')) found.push_back(trimmed(name));
  return found;
}

std::string_view name_of(const Flag& flag) { return names_in(flag.names).front(); }

bool is_switch(const Flag& flag) { return holds<Options::Switch>(flag); }

int words_after(const Flag& flag) {
  if (is_switch(flag)) return 0;
  return holds<Options::Pair>(flag) ? 2 : 1;
}

std::string accepted_by(const Flag& flag) {
  if (!flag.value.accepted.empty()) return std::string(flag.value.accepted);
  if (is_switch(flag)) return "true, false, yes, no, on or off";
  if (holds<Options::Integer>(flag)) return range_text(flag, "a whole number");
  if (holds<Options::Number>(flag)) return range_text(flag, "a number");
  if (holds<Options::Pair>(flag)) {
    return "the least and the most, whole numbers" + range_text(flag, "");
  }
  return "text";
}

Status read_value(const Flag& flag, std::string_view text, Options& options) {
  const std::string_view value = trimmed(text);
  const bool read_well =
      std::visit([&](auto field) { return read(flag, value, options.*field); }, flag.field);
  if (read_well) return Status::ok();
  return invalid_argument(fmt::format("\"{}\": accepted is {}", text, accepted_by(flag)));
}

bool is_set(const Flag& flag, const Options& options) {
  return std::visit([&](auto field) { return has_value(options.*field); }, flag.field);
}

std::optional<std::string> value_text(const Flag& flag, const Options& options) {
  if (!is_set(flag, options)) return std::nullopt;
  return std::visit([&](auto field) { return text_of(flag, options.*field); }, flag.field);
}

bool has_effect(const Flag& flag, const Options& options) {
  if (flag.extras.needs.empty()) return true;
  const Flag& needed = flag_named(flag.extras.needs);
  if (!is_set(needed, options)) return false;
  return !is_switch(needed) || value_text(needed, options) == "1";
}

}  // namespace hvd::launcher
