// SPDX-License-Identifier: Apache-2.0
// Hosts and how many ranks each of them takes.
//
// A host may be listed more than once: its slots add up, where it first stood. One without slots is
// left out. An IPv6 address is written in brackets and kept without.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvd::launcher {

struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// "h1:2,h2:4,[::1]:1".
Result<std::vector<HostSlots>> parse_host_list(std::string_view text);

// One host a line, `name slots=N`, `name:N` or `name` alone for one slot. Blank lines and what
// follows a # are skipped, further `key=value` words are let pass. `file` is for messages.
Result<std::vector<HostSlots>> parse_host_file(std::string_view text, const std::string& file);

// "h1:2,[::1]:1".
std::string to_string(const std::vector<HostSlots>& hosts);
int slots_of(const std::vector<HostSlots>& hosts);

// Adds to the host of that name, if it is there already.
void add_host(std::vector<HostSlots>& hosts, std::string_view name, int slots);
// Not something that a remote shell would take for an option.
bool is_host_name(std::string_view name);

}  // namespace hvd::launcher
