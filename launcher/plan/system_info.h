// SPDX-License-Identifier: Apache-2.0
// The inputs of a plan other than the command line: environment, directory, installed programs and
// libraries. One value, so that tests can replace the system.
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
  std::string directory;    // the current directory
  std::string own_program;  // the path of this program
  // Runs a program and returns its standard output; kNotFound if the program does not exist.
  std::function<Result<std::string>(const std::vector<std::string>& command)> output_of;
  // Whether the dynamic linker finds this shared library.
  std::function<bool(const std::string& library)> has_library;

  // The value of an environment variable; empty if it is not set.
  std::string variable(const std::string& name) const;
};

// The output of a Python script. Uses python3 in the directory of this program (a virtual
// environment need not be in PATH), then python3 and python of PATH.
Result<std::string> run_python(const SystemInfo& system, const std::string& script);

// The real system of this process. output_of() allows a program 5 s.
SystemInfo this_system();

// Runs a program from PATH and returns its standard output when it has ended; standard error is
// dropped. At the deadline the process group is killed (kTimeout). An exit code other than 0 is
// kUnavailable.
Result<std::string> capture_output(const std::vector<std::string>& command, Deadline deadline);

// The contents of a file. The error contains the path.
Result<std::string> read_file(const std::string& path);

}  // namespace hvd::launcher
