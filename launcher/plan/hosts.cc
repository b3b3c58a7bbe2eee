// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

constexpr int kMaxSlots = 1 << 16;  // of one host

// Digits only: parse_integer() would also accept a sign.
std::optional<int> parse_slots(std::string_view text) {
  const auto digits = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), digits)) return std::nullopt;
  const auto number = parse_integer(text);
  if (!number || *number > kMaxSlots) return std::nullopt;
  return static_cast<int>(*number);
}

bool is_ipv6(std::string_view text) {
  in6_addr address;
  return inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
}

// Views into the text that split_host() was given.
struct Parts {
  std::string_view name;
  std::optional<std::string_view> slots;  // what follows the colon
};

// Parses "name", "name:4", "[::1]" or "[::1]:4"; none if the name is not valid.
std::optional<Parts> split_host(std::string_view text) {
  Parts parts;
  std::string_view rest;
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    parts.name = text.substr(1, bracket - 1);
    if (!is_ipv6(parts.name)) return std::nullopt;
    rest = text.substr(bracket + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    parts.name = text.substr(0, colon);
    if (!is_host_name(parts.name)) return std::nullopt;
    rest = text.substr(colon);
  }
  if (rest.empty()) return parts;
  if (!rest.starts_with(':')) return std::nullopt;
  parts.slots = rest.substr(1);
  return parts;
}

// The most common mistake: an IPv6 address without brackets.
std::string remedy(std::string_view text) {
  return is_ipv6(text.substr(0, text.find(' '))) ? "; an IPv6 address is written in brackets" : "";
}

// One line of a host file without its comment; slots follow a colon or are written as slots=N.
std::optional<HostSlots> parse_line(std::string_view line) {
  const auto tokens = words(line);
  const auto parts = split_host(tokens.front());
  if (!parts) return std::nullopt;
  std::optional<int> slots = parts->slots ? parse_slots(*parts->slots) : 1;
  if (!slots) return std::nullopt;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const size_t equals = tokens[i].find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    if (tokens[i].substr(0, equals) == "slots") slots = parse_slots(tokens[i].substr(equals + 1));
  }
  if (!slots) return std::nullopt;
  return HostSlots{std::string(parts->name), *slots};
}

// "slots = 4" is "slots=4".
std::string without_blanks_around_equals(std::string_view line) {
  std::string result;
  for (const std::string_view word : words(line)) {
    const bool glued = result.empty() || result.ends_with('=') || word.starts_with('=');
    if (!glued) result += ' ';
    result += word;
  }
  return result;
}

}  // namespace

bool is_host_name(std::string_view name) {
  if (name.empty() || name.starts_with('-')) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

void add_host(std::vector<HostSlots>& hosts, std::string_view name, int slots) {
  if (slots == 0) return;
  for (HostSlots& host : hosts) {
    if (host.name == name) {
      host.slots = std::min(host.slots + slots, kMaxSlots);
      return;
    }
  }
  hosts.push_back({std::string(name), slots});
}

Result<std::vector<HostSlots>> parse_host_list(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view item = trimmed(part);
    const auto parts = split_host(item);
    // Slots are required here, as in Horovod 0.28; a host file may leave them out.
    const auto slots = parts && parts->slots ? parse_slots(*parts->slots) : std::nullopt;
    if (!slots) {
      return invalid_argument(fmt::format(
          "\"{}\": accepted is host:slots, as in h1:4,h2:4 or [::1]:4{}", item, remedy(item)));
    }
    add_host(hosts, parts->name, *slots);
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_host_file(std::string_view text, const std::string& file) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (const std::string_view whole : split(text, '\n')) {
    ++number;
    const std::string line = without_blanks_around_equals(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    const auto host = parse_line(line);
    if (!host) {
      return invalid_argument(fmt::format(
          "{}:{}: \"{}\": accepted is a host and its slots, as in \"h1 slots=4\" or \"h1:4\"{}",
          file, number, line, remedy(line)));
    }
    add_host(hosts, host->name, host->slots);
  }
  if (hosts.empty()) return invalid_argument(fmt::format("{}: there is no host in it", file));
  return hosts;
}

std::string to_string(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    const bool v6 = host.name.find(':') != std::string::npos;
    text += fmt::format("{}{}{}{}:{}", text.empty() ? "" : ",", v6 ? "[" : "", host.name,
                        v6 ? "]" : "", host.slots);
  }
  return text;
}

// In 64 bits: many hosts with the maximum of slots would overflow an int.
int slots_of(const std::vector<HostSlots>& hosts) {
  int64_t slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return static_cast<int>(std::min<int64_t>(slots, std::numeric_limits<int>::max()));
}

}  // namespace hvd::launcher
