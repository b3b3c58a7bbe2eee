// SPDX-License-Identifier: Apache-2.0
// Holds the connections that peers have opened to communicators of this rank, until the
// communicator takes them. A connection may arrive before the communicator exists on this rank.
//
// These connections have sent their greeting. The `pending_` of Acceptor are connections in their
// handshake, and the `pending_` of PeerAcceptor are connections without a greeting.
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

// Safe from any thread. Ranks are those of the job. Owns connections until they are taken.
class PendingConnections {
 public:
  // Adds a data link or a control connection to the communicator of `hello`. Fails if that rank has
  // one already, or if too many communicators are unknown here.
  Status put_data(const Hello& hello, std::unique_ptr<InLink> link) HVD_EXCLUDES(mutex_);
  Status put_control(const Hello& hello, AuthenticatedStream peer) HVD_EXCLUDES(mutex_);

  // The inbox for the data links of a communicator. Call it once per communicator, and drop() at
  // its end.
  Result<std::shared_ptr<Inbox>> claim(uint64_t communicator) HVD_EXCLUDES(mutex_);
  void drop(uint64_t communicator) HVD_EXCLUDES(mutex_);

  // Waits for the control connection that `from` opens to a claimed communicator.
  Result<AuthenticatedStream> wait_for_control(uint64_t communicator, int from, Health& health,
                                               Deadline deadline) HVD_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<Inbox> inbox;
    std::map<int, AuthenticatedStream> control;  // by rank; without a stream once it is taken
    bool claimed = false;                        // the communicator exists on this rank
  };

  Result<Entry*> find_or_make(uint64_t communicator) HVD_REQUIRES(mutex_);
  // The entry for a connection of a peer. Fails when there are too many unclaimed entries.
  Result<Entry*> entry_for(const Hello& hello) HVD_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Entry> entries_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
