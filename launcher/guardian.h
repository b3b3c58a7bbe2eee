// SPDX-License-Identifier: Apache-2.0
// Two processes look after what is started, the ranks of a host or an mpirun, so that the death of
// either leaves nothing behind.
//
// The inner one, a child of the outer, does all the work and is the parent of all the rest. The
// outer one only waits. Should the inner one be killed, all below it becomes the outer one's and is
// killed too, processes that have left their group and session included. Should the outer one be
// killed, the inner one gets SIGTERM, and gets it once: the death of a parent with several threads
// is told several times, and mpirun takes a second SIGTERM for leave to end without its ranks.
#pragma once

#include "base/function_ref.h"

namespace hvd::launcher {

// Runs `work` as the inner process and ends as it does: returns its exit code, in both processes,
// or dies by its signal. Signals that ask for an end are passed on to it, but for those that a
// terminal sends to both. Before any thread is started.
int run_guarded(FunctionRef<int()> work);

}  // namespace hvd::launcher
