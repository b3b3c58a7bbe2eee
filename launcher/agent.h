// SPDX-License-Identifier: Apache-2.0
// The guardian of the ranks of one host: `horovodrun --agent`, which the launcher starts there, by
// itself or through ssh, and talks to over standard input and output (launcher/protocol.h).
//
// It starts the ranks, passes on what they write as far as it was granted credit, and ends when
// none of them and nothing that they started is left. When the launcher says so, or is lost, it
// makes them end.
#pragma once

namespace hvd::launcher {

// `remote`: silence of the launcher means that it is lost. On its own host the end of the pipe from
// it always tells. Returns the exit code of the process.
int run_agent(bool remote);

}  // namespace hvd::launcher
