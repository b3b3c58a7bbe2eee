// SPDX-License-Identifier: Apache-2.0
// What horovodrun itself says while no Printer does it. Failures to write are no exceptions here,
// as fmt::print would have them: a full disk under standard error must not end the program.
#pragma once

#include <string_view>

namespace hvd::launcher {

// Exit codes.
inline constexpr int kFailure = 1;
inline constexpr int kUsageError = 2;

// "horovodrun: why" on standard error; returns `code`. That nobody can be told is not told.
int print_error(std::string_view why, int code);

// Writes all of it to standard output; returns 0, or complains and returns kFailure.
int print_output(std::string_view text);

}  // namespace hvd::launcher
