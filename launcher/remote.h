// SPDX-License-Identifier: Apache-2.0
// Reaches other hosts: decides which hosts are remote, builds the command that starts an agent
// there, and explains to the user why it failed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/launch.h"
#include "launcher/processes.h"

namespace hvd::launcher {

// Whether `host` is this machine: its name, "localhost", or a name that resolves to one of its
// addresses. A name that does not resolve (an alias in ~/.ssh/config) is remote. Asks the name
// service, which may block.
bool is_local(const std::string& host);

// The shell command that starts an agent on another host. It runs `program`, the path of this
// binary, if the host has it; otherwise horovodrun from PATH: the host's own PATH, then `path` of
// this host.
std::string agent_command(const std::string& program, const std::string& path);

// The local command that runs `command` on `host`. It sets no option about trusted host keys: the
// user decides that in ~/.ssh/config or with --ssh-args. `timeout` limits the connection attempt.
std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host,
                                        const std::string& command, std::chrono::seconds timeout);

// Options of spawn() that start an agent on `host`; `remote` as is_local() decided.
SpawnOptions agent_on(const std::string& host, bool remote, const RemoteShell& shell,
                      std::chrono::seconds timeout);

// Adds -i to `kubectl exec` in the script of the Kubernetes MPI operator (kubexec.sh). Without -i
// the command has no standard input, and the agent needs one. Returns other scripts unchanged.
std::string with_standard_input(std::string script);

// Explains to the user why an agent did not start, and what to do. `status` is waitpid's status of
// the remote shell; `diagnostics` is what the shell and the host wrote, and is quoted line by line.
std::string explain_remote(const RemoteShell& shell, const std::string& host, int status,
                           const std::string& diagnostics);

}  // namespace hvd::launcher
