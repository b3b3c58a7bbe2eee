// SPDX-License-Identifier: Apache-2.0
// Carries a launch out: starts an agent on every host, serves the rendezvous server, shows what the
// ranks write, and sees to it that the job ends as a whole.
#pragma once

#include "launcher/launch.h"

namespace hvd::launcher {

// Returns the exit code of the launcher. What went wrong has been said on standard error.
int run(const Launch& launch);

}  // namespace hvd::launcher
