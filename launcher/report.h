// SPDX-License-Identifier: Apache-2.0
// Describes to the user how ranks ended. Pure. A "status" is the value of waitpid.
#pragma once

#include <string>
#include <vector>

namespace hvd::launcher {

class Supervision;

// "SIGKILL", or "signal 40" for a signal without a name.
std::string signal_name(int signal);
// The exit code, or 128 + signal.
int exit_code_of(int status);
// "exit code 3" or "killed by SIGSEGV (exit code 139)".
std::string describe_exit(int status);
// "0-3,8" for 0, 1, 2, 3, 8. `ranks` must be sorted.
std::string ranges(const std::vector<int>& ranks);

// The report about Supervision::failed_rank(), printed when the job has ended; empty if no rank
// failed. `last_lines` are the last lines of that rank's standard error.
std::string failure_report(const Supervision& job, const std::vector<std::string>& last_lines);

}  // namespace hvd::launcher
