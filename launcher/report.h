// SPDX-License-Identifier: Apache-2.0
// The words in which the launcher tells how ranks have ended. Pure.
#pragma once

#include <string>
#include <vector>

namespace hvd::launcher {

class Supervision;

// "SIGKILL"; "signal 40" for one without a name.
std::string signal_name(int signal);
// Of a status as waitpid gives it: the exit code, or 128 + signal.
int exit_code_of(int status);
// "exit code 3" or "killed by SIGSEGV (exit code 139)".
std::string describe_exit(int status);
// "0-3,8" for 0, 1, 2, 3, 8; in ascending order already.
std::string ranges(const std::vector<int>& ranks);

// The block about the rank that is to blame, to be shown when the job has ended; empty if there is
// none. `last_lines` are of its standard error.
std::string failure_report(const Supervision& job, const std::vector<std::string>& last_lines);

}  // namespace hvd::launcher
