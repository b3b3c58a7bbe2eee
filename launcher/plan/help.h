// SPDX-License-Identifier: Apache-2.0
// Texts for users that are generated from the table of flags.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hvd::launcher {

// The output of --help.
std::string help_text();

// Replaces the tables of flags in `page` (docs/horovodrun.md), which are between two marker
// comments. Fails if a marker is missing.
Result<std::string> with_flag_tables(std::string_view page);

}  // namespace hvd::launcher
