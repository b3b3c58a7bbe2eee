// SPDX-License-Identifier: Apache-2.0
// Jobs whose ranks mpirun or jsrun starts: horovodrun serves the rendezvous and is the program's
// parent.
#pragma once

#include "launcher/plan/plan.h"

namespace hvd::launcher {

// Returns the program's exit code. It shares terminal and standard streams; signals that come to
// horovodrun alone are passed on to it.
int run_program(const ProgramLaunch& launch);

}  // namespace hvd::launcher
