// Two processes look after the ranks of a host, so that the death of either leaves nothing behind.
//
// The inner one, a child of the outer, does all the work: it starts the ranks and is their parent.
// The outer one only waits. Should the inner one be killed, all below it becomes the outer one's
// and is killed too, processes that have left their group and session included. Should the outer
// one be killed, the inner one gets SIGTERM and ends its ranks.
#pragma once

#include "base/function_ref.h"

namespace hvd::launcher {

// Runs `work` as the inner process and ends as it does: returns its exit code, in both processes,
// or dies by its signal. The standard streams are then the inner one's alone, except for standard
// error; signals that ask for an end are passed on to it. Before any thread is started.
int run_guarded(FunctionRef<int()> work);

}  // namespace hvd::launcher
