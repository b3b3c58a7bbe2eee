// SPDX-License-Identifier: Apache-2.0
// Reaching other hosts: which are others, the command that starts an agent there, and what it means
// when that does not work.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/launch.h"
#include "launcher/processes.h"

namespace hvd::launcher {

// Whether `host` is this machine: its own name, or one that leads to an address of it. A name that
// only ssh knows is another machine's.
bool is_local(const std::string& host);

// Runs `program`, which is this program's own path, or else horovodrun from PATH, which is the
// host's own and then this one's.
std::string agent_command(const std::string& program, const std::string& path);

// What to run here so that `command` runs on `host`. No option decides which host keys are trusted:
// that is the user's, in ~/.ssh/config or by arguments.
std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host,
                                        const std::string& command, std::chrono::seconds timeout);

// How to start an agent on `host`, which is this machine or another one.
SpawnOptions agent_on(const std::string& host, bool remote, const RemoteShell& shell,
                      std::chrono::seconds timeout);

// The helper of Kubernetes' MPI operator runs `kubectl exec` without the standard input that the
// agent needs; the same with it.
std::string with_standard_input(std::string script);

// Why an agent did not come up, and what to do: `status` is how the remote shell ended, as waitpid
// gives it, `said` what it and the host wrote meanwhile.
std::string explain_remote(const RemoteShell& shell, const std::string& host, int status,
                           const std::string& diagnostics);

}  // namespace hvd::launcher
