// SPDX-License-Identifier: Apache-2.0
// What a plan is made from besides the command line, as one value, so that tests bring their own.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd::launcher {

using Environment = std::map<std::string, std::string>;

struct SystemInfo {
  Environment environment;
  std::string directory;    // the current one
  std::string own_program;  // the path of this program
  // What a program writes to standard output; kNotFound when there is no such program.
  std::function<Result<std::string>(const std::vector<std::string>& command)> output_of;
  // Whether the dynamic linker finds this shared library.
  std::function<bool(const std::string& library)> has_library;

  // Empty when it is not set.
  std::string variable(const std::string& name) const;
};

// What Python makes of `script`: the Python that this program was installed with, which need not be
// on the PATH, or else the one that is.
Result<std::string> run_python(const SystemInfo& system, const std::string& script);

// This process's own. Programs get a few seconds to answer.
SystemInfo this_system();

// Runs a program from PATH to its end and returns what it wrote to standard output. Standard error
// is dropped. At the deadline it is killed with all its children.
Result<std::string> capture_output(const std::vector<std::string>& command, Deadline deadline);

// All of a file; the message names it.
Result<std::string> read_file(const std::string& path);

}  // namespace hvd::launcher
