// SPDX-License-Identifier: Apache-2.0
// Runs jobs whose ranks are started by mpirun or jsrun: horovodrun runs the rendezvous server and
// is the parent of that program.
#pragma once

#include "launcher/plan/plan.h"

namespace hvd::launcher {

// Blocks until the program has ended and returns its exit code, or 128 + signal. The program shares
// the terminal and the standard streams. A signal that is sent to horovodrun alone is forwarded to
// the program. If horovodrun or its guardian is killed, the program and its descendants end too
// (launcher/guardian.h). Call it before any thread is started.
int run_program(const ProgramLaunch& launch);

}  // namespace hvd::launcher
