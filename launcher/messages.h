// SPDX-License-Identifier: Apache-2.0
// Messages of horovodrun itself while no Printer runs. These functions do not throw on write errors
// as fmt::print does: a full disk under standard error must not end the program.
#pragma once

#include <string_view>

namespace hvd::launcher {

// Exit codes: a job that failed, and a wrong command line or file.
inline constexpr int kFailure = 1;
inline constexpr int kUsageError = 2;

// Prints "horovodrun: why" to standard error and returns `code`. Write errors are ignored, as there
// is no other place to report them.
int print_error(std::string_view why, int code);

// Writes `text` to standard output. Returns 0, or prints an error and returns kFailure.
int print_output(std::string_view text);

}  // namespace hvd::launcher
