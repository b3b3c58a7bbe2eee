// SPDX-License-Identifier: Apache-2.0
// Where the connections that peers open to our communicators wait until those take them. They may
// come before the communicator exists here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/status.h"
#include "net/stream.h"
#include "transport/health.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/wire.h"

namespace hvd {

// Safe from any thread. Ranks are those of the job.
class PendingConnections {
 public:
  // A data link or a control connection to the communicator of `hello`; fails when there is one of
  // that rank already.
  Status put_data(const Hello& hello, std::unique_ptr<InLink> link) HVD_EXCLUDES(mutex_);
  Status put_control(const Hello& hello, AuthenticatedStream peer) HVD_EXCLUDES(mutex_);

  // Where the data links of a communicator come in; once for each, and drop() ends it.
  Result<std::shared_ptr<Inbox>> claim(uint64_t communicator) HVD_EXCLUDES(mutex_);
  void drop(uint64_t communicator) HVD_EXCLUDES(mutex_);

  // Waits for the control connection that `from` opens to a claimed communicator.
  Result<AuthenticatedStream> wait_for_control(uint64_t communicator, int from, Health& health,
                                               Deadline deadline) HVD_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<Inbox> inbox;
    std::map<int, AuthenticatedStream> control;
    bool claimed = false;
  };

  Result<Entry*> find_or_make(uint64_t communicator) HVD_REQUIRES(mutex_);
  // The entry that a peer asks for.
  Result<Entry*> entry_for(const Hello& hello) HVD_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Entry> entries_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
