// SPDX-License-Identifier: Apache-2.0
// Starts processes, and finds and signals all descendants of this process.
//
// The Python package has its own walk of the process tree, in
// python/horovod/runner/common/util/guardian.py. It serves Spark tasks and safe_shell_exec, which
// must work where this binary is not installed, for example on a Spark executor that has only the
// Python files. Both follow the same rules: read the parent of every process in /proc, find all
// processes below this process, signal all of them regardless of group and session, and repeat
// SIGKILL until none is left or three seconds have passed. A change here must be made there as
// well.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "net/fd.h"

namespace hvd::launcher {

struct SpawnOptions {
  std::vector<std::string> command;  // the first word is searched in PATH
  std::string program;               // the file to execute, if it is not command[0]
  // "NAME=value" entries; empty: the environment of this process.
  std::vector<std::string> environment;
  std::string directory;     // empty: the directory of this process
  bool give_input = false;   // a pipe to its standard input; otherwise /dev/null
  bool take_stderr = false;  // a pipe from its standard error; otherwise this process's
  bool new_session = false;  // detached from the terminal and its signals; otherwise a new group
  bool inherit_everything = false;  // no pipes, no new group: shares streams and group
  int parent_death_signal = 0;      // sent to it when the thread that called spawn() ends; 0: none
};

// Descriptors of pipes that were not asked for are invalid. The caller reaps `pid`.
struct Child {
  pid_t pid = -1;
  Fd input;   // write here what the child reads
  Fd output;  // the child's standard output
  Fd error;   // the child's standard error
};

// Returns when exec has succeeded. kNotFound if the command does not exist; kUnavailable if a limit
// of processes or open files is reached; kIo otherwise.
Result<Child> spawn(const SpawnOptions& options);

// All processes below this one: children, their children, and so on. Zombies are included. The list
// is a snapshot: processes may start or end while it is made.
std::vector<pid_t> descendants();
void signal_all(const std::vector<pid_t>& processes, int signal);

// Makes this process the subreaper of its descendants: when a parent ends, its children become
// children of this process. So no descendant can escape descendants(), even by leaving its group
// and session. Applies to this process only; forked children do not inherit it.
Status become_subreaper();

// Repairs what this process may have inherited. Opens a closed standard stream as /dev/null;
// otherwise a connection opened later would get its number and receive what is printed. Restores
// the default of SIGCHLD: while it is ignored, waitpid cannot report how children ended.
void repair_inherited_state();

// Raises the soft limit of open files to the hard limit. Children started by spawn() get the
// original limit back, because programs that use select() may break with descriptors above 1024.
void raise_descriptor_limit();

}  // namespace hvd::launcher
