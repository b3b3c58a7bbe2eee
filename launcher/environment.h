// SPDX-License-Identifier: Apache-2.0
// The environment of one rank, composed by the agent on its host. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/protocol.h"
#include "net/address.h"

namespace hvd::launcher {

// Combines three sets of variables: `own`, the environment of the host; `job.environment`; those of
// this rank (HOROVOD_RANK, the rendezvous server, the secret). If a variable is in several sets,
// the last set wins. Returns "NAME=value" entries. `interfaces` are the interfaces that the job is
// restricted to and that this host has.
std::vector<std::string> rank_environment(const std::vector<std::string>& own,
                                          const StartRanks& job, const Slot& slot,
                                          const Endpoint& rendezvous,
                                          const std::vector<std::string>& interfaces);

}  // namespace hvd::launcher
