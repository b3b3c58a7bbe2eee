// SPDX-License-Identifier: Apache-2.0
// Reads the YAML file of --config-file. docs/horovodrun.md lists its sections and keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/plan/flags.h"

namespace hvd::launcher {

// Sets the values of `text` in `options`, except for fields that already have a value: the command
// line wins. An unknown key is ignored and adds a warning. A value of the wrong type is an error
// with file name and line. Every value is checked, including values that the command line
// overrides.
Status apply_config_file(std::string_view text, const std::string& file, Options& options,
                         std::vector<std::string>& warnings);

}  // namespace hvd::launcher
