// SPDX-License-Identifier: Apache-2.0
// Starting processes, and ending whole families of them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "net/fd.h"

namespace hvd::launcher {

struct SpawnOptions {
  std::vector<std::string> command;  // the first is looked for in PATH
  std::string program;               // what is run under that name, if it is something else
  // As execve takes it; empty: that of this process.
  std::vector<std::string> environment;
  std::string directory;     // empty: that of this process
  bool give_input = false;   // a pipe to its standard input; otherwise /dev/null
  bool take_stderr = false;  // a pipe from its standard error; otherwise that of this process
  bool new_session = false;  // away from the terminal and its signals; otherwise a new group
  bool inherit_everything = false;  // no pipes and no new group: all that is as of this process
  int parent_death_signal = 0;      // what it gets when the thread that calls spawn() ends
};

// Those that are not asked for are not there.
struct Child {
  pid_t pid = -1;
  Fd input;   // what it reads
  Fd output;  // what it writes
  Fd error;
};

// Returns when the command runs. kNotFound: there is no such command; kIo: other reasons.
Result<Child> spawn(const SpawnOptions& options);

// All processes below this one: children, their children, and so on.
std::vector<pid_t> descendants();
void signal_all(const std::vector<pid_t>& processes, int signal);

// From now on a process below this one whose parent ends becomes this one's child. So none can get
// away, not even by leaving its group and session.
Status become_subreaper();

// Makes up for what this process was started without. A standard stream that is closed becomes
// /dev/null; it would otherwise be a connection opened later, and get what is meant for a terminal.
// An ignored SIGCHLD, under which children end without a trace, is no longer so.
void repair_inherited_state();

// Lets this process have as many descriptors as it may; those it starts get the old limit.
void raise_descriptor_limit();

}  // namespace hvd::launcher
