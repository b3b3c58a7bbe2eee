// SPDX-License-Identifier: Apache-2.0
// The table of flags as pages for people.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace hvd::launcher {

// What --help shows.
std::string help_text();

// docs/horovodrun.md: prose with the tables of all flags between two marks. Returns the page with
// the tables as they have to be; fails when the marks are not there.
Result<std::string> with_flag_tables(std::string_view page);

}  // namespace hvd::launcher
