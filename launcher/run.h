// SPDX-License-Identifier: Apache-2.0
// Executes a launch: starts an agent on every host, runs the rendezvous server, prints the output
// of the ranks, and ends the whole job when a part of it fails.
//
// One thread runs the event loop, JobRunner in run.cc. Supervision, which is pure, decides how to
// react to an event, and JobRunner executes the decisions. The other threads are hvd-output (of the
// Printer) and hvd-rendezvous (of the rendezvous server).
#pragma once

#include "launcher/launch.h"

namespace hvd::launcher {

// Blocks until the job has ended. Returns the exit code of the launcher: 0, 1 after a failure, 2
// for wrong settings, 128 + signal when interrupted. Errors have been printed to standard error.
// Call it before any thread is started: it blocks signals.
int run(const Launch& launch);

}  // namespace hvd::launcher
