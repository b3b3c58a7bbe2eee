// SPDX-License-Identifier: Apache-2.0
// Two nested processes supervise the processes that horovodrun starts: the ranks of a host, or
// mpirun. If either of the two dies, no process is left running.
//
//   outer (guardian: only waits) --fork--> inner (does the work) --> ranks or mpirun --> ...
//
// If the inner process is killed, its descendants become children of the outer process (a
// subreaper), which kills them, including processes that left their group and session. If the outer
// process is killed, the inner process gets SIGTERM exactly once. It must not get it twice, because
// mpirun exits without its ranks after a second SIGTERM. PR_SET_PDEATHSIG sends one signal per
// thread of the parent, so the outer process has a single thread.
#pragma once

#include "base/function_ref.h"

namespace hvd::launcher {

// Runs `work` in the inner process. Returns the exit code of `work` in both processes. If a signal
// killed the inner process, the outer process raises the same signal for itself. The outer process
// forwards SIGTERM, SIGINT and SIGHUP to the inner process, except signals from a terminal, which
// both processes get. Call it before any thread is started, because it forks.
int run_guarded(FunctionRef<int()> work);

}  // namespace hvd::launcher
