// SPDX-License-Identifier: Apache-2.0
// The launcher's rendezvous server and the addresses at which hosts can reach it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/rendezvous.h"
#include "net/secret.h"

namespace hvd::launcher {

// The server runs until this is destroyed, and must outlive the job.
struct RendezvousService {
  std::unique_ptr<RendezvousServer> server;
  std::vector<std::string> addresses;  // "ip:port", one per interface
};

// Starts the server on the loopback interface for a job on one host, on `interfaces` if there are
// any, and on all interfaces otherwise. Fails if none of `interfaces` exists or no port can be
// bound.
Result<RendezvousService> start_rendezvous(const Secret& secret, bool one_host,
                                           const std::vector<std::string>& interfaces, bool tls);

}  // namespace hvd::launcher
