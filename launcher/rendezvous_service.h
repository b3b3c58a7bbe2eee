// SPDX-License-Identifier: Apache-2.0
// Where the launcher's rendezvous server listens, and under which addresses hosts may find it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/rendezvous.h"
#include "net/secret.h"

namespace hvd::launcher {

struct RendezvousService {
  std::unique_ptr<RendezvousServer> server;
  std::vector<std::string> addresses;
};

// A job on one host needs the loopback interface only. Otherwise the rendezvous server listens on
// the given interfaces, or on all.
Result<RendezvousService> start_rendezvous(const Secret& secret, bool one_host,
                                           const std::vector<std::string>& interfaces, bool tls);

}  // namespace hvd::launcher
