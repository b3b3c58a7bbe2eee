// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// One name of one flag, and whether it turns the flag on or off.
struct Spelling {
  std::string_view name;
  const Flag* flag;
  bool on;
};

// Two names of one flag, such as -np and --num-proc.
bool same_meaning(const Spelling& a, const Spelling& b) { return a.flag == b.flag && a.on == b.on; }

std::vector<Spelling> all_spellings() {
  std::vector<Spelling> found;
  for (const Flag& flag : flags()) {
    const auto add = [&](std::string_view names, bool on) {
      for (const std::string_view name : names_in(names)) found.push_back({name, &flag, on});
    };
    add(flag.names, true);
    add(flag.extras.off, false);
    add(flag.extras.hidden_names, true);
    add(flag.extras.hidden_off_names, false);
  }
  return found;
}

// A flag found in the arguments, with the value attached to it by "=" or directly (-p22).
struct Found {
  Spelling spelling;
  std::optional<std::string_view> value;
};

// Parses one command line, word by word. `arguments` must outlive it.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  Result<CommandLine> parse() {
    while (next_ < arguments_.size()) {
      const std::string_view word = arguments_[next_];
      const bool is_flag = word.size() > 1 && word.starts_with('-');
      if (word == "--") ++next_;
      if (!is_flag || word == "--") {
        result_.command.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
                               arguments_.end());
        break;
      }
      ++next_;
      HVD_TRY_ASSIGN(const Found found, look_up(word));
      HVD_TRY(take(found));
      const Options& options = result_.options;
      if (options.help || options.version || options.check_build) break;
    }
    return std::move(result_);
  }

 private:
  // An exact name wins over an abbreviation; an abbreviation must fit one meaning only.
  Result<Found> look_up(std::string_view word) const {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) value = word.substr(equals + 1);
    std::vector<Spelling> candidates;
    for (const Spelling& spelling : spellings_) {
      if (spelling.name == name) return Found{spelling, value};
      if (spelling.name.starts_with(name) && name != "--") candidates.push_back(spelling);
    }
    if (candidates.empty()) return attached(word);
    for (const Spelling& candidate : candidates) {
      if (!same_meaning(candidate, candidates.front())) return ambiguous(name, candidates);
    }
    return Found{candidates.front(), value};
  }

  // "-p22": a name with one dash, directly followed by its value.
  Result<Found> attached(std::string_view word) const {
    for (const Spelling& spelling : spellings_) {
      const bool one_dash = !spelling.name.starts_with("--");
      if (one_dash && word.starts_with(spelling.name) && !is_switch(*spelling.flag)) {
        return Found{spelling, word.substr(spelling.name.size())};
      }
    }
    return unknown(word.substr(0, word.find('=')));
  }

  Status unknown(std::string_view name) const {
    std::vector<std::string_view> names;
    for (const Spelling& spelling : spellings_) names.push_back(spelling.name);
    const auto meant = closest(name, names);
    return invalid_argument(fmt::format(
        "{}: there is no such flag; {}", name,
        meant ? fmt::format("did you mean {}?", *meant) : "horovodrun --help lists all of them"));
  }

  static Status ambiguous(std::string_view name, const std::vector<Spelling>& candidates) {
    std::vector<std::string> names;
    for (const Spelling& candidate : candidates) names.emplace_back(candidate.name);
    return invalid_argument(fmt::format("{} could be any of {}: write a longer part of the name",
                                        name, join(names, ", ")));
  }

  // Reads the value of a flag, from the word itself or from the next words.
  Status take(const Found& found) {
    const Flag& flag = *found.spelling.flag;
    HVD_TRY(check_exclusive(found.spelling));
    if (is_switch(flag)) {
      if (found.value) {
        return invalid_argument(fmt::format("{} takes no value, and was given \"{}\"",
                                            found.spelling.name, *found.value));
      }
      return read_value(flag, found.spelling.on ? "true" : "false", result_.options);
    }
    std::string value;
    if (found.value) {
      value = *found.value;
    } else {
      HVD_TRY_ASSIGN(value, following_words(found.spelling));
    }
    if (found.spelling.name == "--network-interface" && value.find(',') != std::string::npos) {
      result_.warnings.emplace_back(
          "--network-interface takes one name; for a list write --network-interfaces");
    }
    return read_value(flag, value, result_.options).with_context(found.spelling.name);
  }

  // Values of a pair are joined by a blank, as the config file writes them.
  Result<std::string> following_words(const Spelling& spelling) {
    std::vector<std::string> found;
    for (int i = 0; i < words_after(*spelling.flag); ++i, ++next_) {
      if (next_ == arguments_.size() || looks_like_flag(arguments_[next_])) {
        return invalid_argument(
            fmt::format("{0} needs a value: {1}; one that starts with a dash is written {0}=value",
                        spelling.name, accepted_by(*spelling.flag)));
      }
      found.push_back(arguments_[next_]);
    }
    return join(found, " ");
  }

  // A negative number is a value. So is a word with blanks: the user has quoted it.
  static bool looks_like_flag(std::string_view word) {
    if (word.size() < 2 || word[0] != '-') return false;
    return !parse_number(word) && word.find(' ') == std::string_view::npos;
  }

  // Flags of one group exclude each other, and so do a switch and its opposite.
  Status check_exclusive(const Spelling& spelling) {
    const ExclusiveGroup group = spelling.flag->extras.exclusive;
    for (const Spelling& other : seen_) {
      const bool related = other.flag == spelling.flag || (group != ExclusiveGroup::kNone &&
                                                           other.flag->extras.exclusive == group);
      if (related && !same_meaning(other, spelling)) {
        return invalid_argument(fmt::format("{} and {} exclude each other: give one of them",
                                            other.name, spelling.name));
      }
    }
    seen_.push_back(spelling);
    return Status::ok();
  }

  const std::vector<std::string>& arguments_;
  const std::vector<Spelling> spellings_ = all_spellings();
  size_t next_ = 0;
  std::vector<Spelling> seen_;
  CommandLine result_;
};

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  return Parser(arguments).parse();
}

}  // namespace hvd::launcher
