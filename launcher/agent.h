// SPDX-License-Identifier: Apache-2.0
// The agent supervises the ranks of one host: `horovodrun --agent`. The launcher starts one agent
// per host, directly on its own host and through ssh elsewhere, and exchanges messages with it over
// the agent's standard input and output (launcher/protocol.h).
//
// The agent starts the ranks and forwards their output as far as the launcher has granted credit.
// It exits when no rank and no process that a rank started is left. It stops the ranks when the
// launcher sends StopRanks, when the connection to the launcher is lost, or when the agent itself
// gets a signal:
//
//   connected --StartRanks--> running --all ranks exited--> orphans get SIGTERM, 1 s later SIGKILL
//                                |                                     |
//                                |  StopRanks, loss, signal            v
//                                +--> SIGTERM, grace, SIGKILL --> output drained
//                                                                      |
//                                                                      v
//                                                              AgentDone, exit
#pragma once

namespace hvd::launcher {

// Runs the agent to its end and returns the exit code of the process. With `remote`, an agent that
// receives nothing for 7 s treats the launcher as lost: a cut cable closes no connection. On the
// launcher's own host the kernel always closes the pipe, so silence has no meaning there.
// Call it before any thread is started (see run_guarded).
int run_agent(bool remote);

}  // namespace hvd::launcher
