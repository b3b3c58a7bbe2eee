// SPDX-License-Identifier: Apache-2.0
// Checks that an agent does on its host before it starts ranks. The errors are complete sentences
// for the user; the launcher prints them with the name of the host.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/protocol.h"
#include "net/address.h"

namespace hvd::launcher {

// The first address whose server accepts a connection and proves, by the job's secret, that it is
// the rendezvous server of this job. Tries all addresses at the same time, because some may be
// useless: this host may be unable to reach them, or they may belong to another machine in the
// network of this host (private networks). Blocks up to 5 s. The error names all addresses.
Result<Endpoint> find_rendezvous(const StartRanks& job);

// The interfaces in `names` that this machine has. Hosts may have different names, so some may be
// missing; kNotFound if all are.
Result<std::vector<Interface>> interfaces_among(const std::vector<std::string>& names);

// The names of the interfaces that ranks may use here. If the job has a list of interfaces: those
// in the list that this host has. Otherwise, for a job on one host: the loopback interface.
// Otherwise none, which means no restriction.
Result<std::vector<std::string>> usable_interfaces(const StartRanks& job);

// The job's directory if it exists here; otherwise the home directory (or "/"), with a warning.
std::string usable_directory(const StartRanks& job, std::string& warning);

// Explains to the user why a command cannot be started on this host.
std::string explain_command(const std::string& command, const Status& why);

}  // namespace hvd::launcher
