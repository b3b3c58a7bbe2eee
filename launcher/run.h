// SPDX-License-Identifier: Apache-2.0
// Executes a launch: starts an agent on every host, runs the rendezvous server, prints the output
// of the ranks, and ends the whole job when a part of it fails.
//
// One thread runs the event loop of JobRunner, in run.cc. Supervision, which has no I/O, decides
// what to do about an event; JobRunner executes the decisions. The other threads belong to Printer
// and to the rendezvous server.
#pragma once

#include "launcher/launch.h"

namespace hvd::launcher {

// Blocks until the job has ended. Returns the exit code of the launcher: 0, 1 after a failure, 2
// for wrong settings, 128 + signal when interrupted. Errors have been printed to standard error.
// Call it before any thread is started: it blocks signals.
int run(const Launch& launch);

}  // namespace hvd::launcher
