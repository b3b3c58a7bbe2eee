// SPDX-License-Identifier: Apache-2.0
// The YAML file of --config-file: flags in sections, as docs/horovodrun.md lists them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/plan/flags.h"

namespace hvd::launcher {

// Sets what `text` says in `options`, except for fields that have a value already: the command line
// wins. Keys that nobody knows are let pass with a warning each. A value of the wrong type fails
// with file and line.
Status apply_config_file(std::string_view text, const std::string& file, Options& options,
                         std::vector<std::string>& warnings);

}  // namespace hvd::launcher
