// SPDX-License-Identifier: Apache-2.0
// Two nested processes supervise what horovodrun starts (the ranks of a host, or mpirun), so that
// the death of either process leaves nothing running.
//
//   outer (guardian: only waits) --fork--> inner (does the work) --> ranks or mpirun --> ...
//
// If the inner process is killed, its descendants become children of the outer process (a
// subreaper), which kills them, including processes that left their group and session. If the outer
// process is killed, the inner one gets SIGTERM exactly once. The outer process has a single
// thread, because PR_SET_PDEATHSIG sends one signal for each thread of the parent, and mpirun takes
// a second SIGTERM as permission to exit without its ranks.
#pragma once

#include "base/function_ref.h"

namespace hvd::launcher {

// Runs `work` in the inner process. Returns the exit code of `work` in both processes; the outer
// process raises the same signal if one killed the inner process. The outer process forwards
// SIGTERM, SIGINT and SIGHUP, except those from a terminal, which reach both. Call it before any
// thread is started, because it forks.
int run_guarded(FunctionRef<int()> work);

}  // namespace hvd::launcher
