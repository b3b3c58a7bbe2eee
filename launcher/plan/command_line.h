// SPDX-License-Identifier: Apache-2.0
// Parses the command line with the rules of Python's argparse, which existing scripts rely on:
//
//   - long names may be abbreviated if the result is unambiguous;
//   - a value follows after a blank or "=", or directly after a name with one dash (-p22);
//   - if a flag is repeated, the last value wins;
//   - the first word that is not a flag starts the command; all later words belong to it.
//
// No library parses the arguments: common libraries do not accept names such as -np, and the config
// file uses the same table of flags.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcher/plan/flags.h"

namespace hvd::launcher {

struct CommandLine {
  Options options;
  std::vector<std::string> command;
  std::vector<std::string> warnings;
};

// `arguments` are argv without the program's name. Parsing stops at --help, --version and
// --check-build; words after them are ignored. An error names the flag, the value and the accepted
// values. Pure.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace hvd::launcher
