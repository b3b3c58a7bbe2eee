// SPDX-License-Identifier: Apache-2.0
// The command line, read with the manners that scripts are used to:
//
//   long names may be cut short as long as only one flag is meant; values follow after a blank or a
//   =, and directly after a name of one dash (-p22); of a flag given twice the last one holds; the
//   first word that is no flag starts the command, to which everything behind belongs.
//
// It is the table of flags and a few rules, without an argument library: none that is at hand knows
// names such as -np, and the config file reads values by the same table.
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

// `arguments` are argv without the program's name. Ends early at --help, --version and
// --check-build: what stands behind them is not looked at. A failure names the flag, the value and
// what is accepted.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace hvd::launcher
