// SPDX-License-Identifier: Apache-2.0
// Sockets between processes of one host that share a network namespace, over an abstract Unix
// address: no port, no file to leave behind, nothing that another machine could reach.
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

// Non-blocking once it is connected.
Result<Fd> connect_local(const std::string& name, Deadline deadline);

}  // namespace hvd
