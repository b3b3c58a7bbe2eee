// SPDX-License-Identifier: Apache-2.0
// Sockets between processes of one host that share a network namespace, over an abstract Unix
// address: no port, no file that could be left behind, and not reachable from another machine.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "net/fd.h"

namespace hvd {

struct LocalListener {
  Fd socket;         // non-blocking
  std::string name;  // for connect_local; chosen by the kernel, unique in the namespace
};
Result<LocalListener> listen_local();

// The socket is non-blocking once it is connected. Waits until the deadline for a full listener.
Result<Fd> connect_local(const std::string& name, Deadline deadline);

}  // namespace hvd
