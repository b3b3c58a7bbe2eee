// SPDX-License-Identifier: Apache-2.0
// What an agent finds out about its host before it starts ranks there.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/protocol.h"
#include "net/address.h"

namespace hvd::launcher {

// The first of the rendezvous server's addresses that answers and proves that it is the rendezvous
// server of this job. All are tried at once: the launcher's host may have addresses that mean
// nothing here, or somebody else. The error names all of them.
Result<Endpoint> find_rendezvous(const StartRanks& job);

// Addresses of the interfaces in `names`, as far as this machine has them: names need not be the
// same everywhere. Fails when it has none of them.
Result<std::vector<Interface>> interfaces_among(const std::vector<std::string>& names);

// The interfaces that the job is restricted to, as far as this host has them. Loopback if the job
// is on one host. Empty: no restriction.
Result<std::vector<std::string>> usable_interfaces(const StartRanks& job);

// The job's directory if it is here; otherwise home, with a warning.
std::string usable_directory(const StartRanks& job, std::string& warning);

// Says why a command does not run on this host.
std::string explain_command(const std::string& command, const Status& why);

}  // namespace hvd::launcher
