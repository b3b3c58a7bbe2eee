// SPDX-License-Identifier: Apache-2.0
// Where the launcher's rendezvous store listens, and under which addresses hosts may find it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/secret.h"
#include "net/store.h"

namespace hvd::launcher {

struct StorePlace {
  std::unique_ptr<StoreServer> server;
  std::vector<std::string> addresses;
};

// A job on one host needs the loopback interface only. Otherwise the store listens on the given
// interfaces, or on all.
Result<StorePlace> start_store(const Secret& secret, bool one_host,
                               const std::vector<std::string>& interfaces, bool tls);

}  // namespace hvd::launcher
