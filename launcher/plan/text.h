// SPDX-License-Identifier: Apache-2.0
// Small questions about text that several parts of the launcher ask.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace hvd::launcher {

// What stands between blanks.
std::vector<std::string_view> words(std::string_view text);

// None unless all of it is a number that fits.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// As a shell would split a command: blanks separate, quotes and backslashes keep together. Nothing
// else has a meaning: no variables, no patterns.
Result<std::vector<std::string>> split_like_shell(std::string_view text);
// One word that a shell reads back as `text`.
std::string quoted_for_shell(std::string_view text);

// The candidate that `word` was probably meant to be; none if it is like none of them.
std::optional<std::string_view> closest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

}  // namespace hvd::launcher
