// SPDX-License-Identifier: Apache-2.0
// Text functions that several parts of the launcher use. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace hvd::launcher {

// The parts between blanks (space, tab, CR, LF). The views point into `text`.
std::vector<std::string_view> words(std::string_view text);

// The whole text as a number; none if it is not one, or out of range. parse_number() accepts finite
// numbers only.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// Splits like a shell: at blanks, except within quotes or after a backslash. Variables and patterns
// are not expanded. Fails if a quote is left open.
Result<std::vector<std::string>> split_like_shell(std::string_view text);
// Quotes `text` so that a shell reads it as one word.
std::string quoted_for_shell(std::string_view text);

// The candidate most similar to `word`, for "did you mean"; none if more than a third of the
// letters differ.
std::optional<std::string_view> closest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

}  // namespace hvd::launcher
