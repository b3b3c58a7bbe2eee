// SPDX-License-Identifier: Apache-2.0
// Lists of hosts with their slots (the number of ranks that a host takes). Pure.
//
// If a host is listed more than once, its slots are added at its first position. A host with 0
// slots is left out. An IPv6 address is written in brackets and stored without them.
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

// One host per line: `name slots=N`, `name:N`, or `name` for one slot. Blank lines, text after #
// and other `key=value` words are ignored. `file` is the name for error messages, which give the
// line.
Result<std::vector<HostSlots>> parse_host_file(std::string_view text, const std::string& file);

// "h1:2,[::1]:1".
std::string to_string(const std::vector<HostSlots>& hosts);
int slots_of(const std::vector<HostSlots>& hosts);

// Appends a host, or adds the slots to the host of that name. At most 65536 slots per host.
void add_host(std::vector<HostSlots>& hosts, std::string_view name, int slots);
// Letters, digits, "_", "." and "-", not starting with "-": ssh would take that as an option.
bool is_host_name(std::string_view name);

}  // namespace hvd::launcher
