// SPDX-License-Identifier: Apache-2.0
// Holds the links that peers have opened to one communicator until its mesh takes them. Links may
// arrive before the mesh exists.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "net/fd.h"
#include "transport/link.h"

namespace hvd {

// Safe from any thread: hvd-net puts links, the thread of the mesh takes them.
class Inbox {
 public:
  static Result<std::shared_ptr<Inbox>> create();

  struct Item {
    int from;  // rank of the job
    std::unique_ptr<InLink> link;
  };
  // False if that rank has opened a link already.
  bool put(Item item) HVD_EXCLUDES(mutex_);
  // The links that arrived since the last call. No lock and no system call when there are none.
  std::vector<Item> take() HVD_EXCLUDES(mutex_);
  // Readable while there are links to take.
  int descriptor() const { return event_.get(); }

 private:
  explicit Inbox(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::vector<Item> items_ HVD_GUARDED_BY(mutex_);
  std::set<int> seen_ HVD_GUARDED_BY(mutex_);  // ranks that have opened a link
};

}  // namespace hvd
