// SPDX-License-Identifier: Apache-2.0
// The environment of one rank. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/protocol.h"
#include "net/address.h"

namespace hvd::launcher {

// `own` is the environment of the host, over which the job's is laid, and over that what tells the
// rank its place; all as "NAME=value". `interfaces` are those that the job is restricted to and
// that the host has.
std::vector<std::string> rank_environment(const std::vector<std::string>& own,
                                          const StartRanks& job, const Slot& slot,
                                          const Endpoint& rendezvous,
                                          const std::vector<std::string>& interfaces);

}  // namespace hvd::launcher
