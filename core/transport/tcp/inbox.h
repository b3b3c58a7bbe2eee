// SPDX-License-Identifier: Apache-2.0
// Where the links that peers open to one communicator wait until its mesh takes them. They may come
// before the mesh exists.
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

class Inbox {
 public:
  static Result<std::shared_ptr<Inbox>> create();

  struct Item {
    int from;  // rank in the job
    std::unique_ptr<InLink> link;
  };
  // False if that rank has opened a link already.
  bool put(Item item) HVD_EXCLUDES(mutex_);
  // All that came since the last call; without a lock or a system call when there is nothing.
  std::vector<Item> take() HVD_EXCLUDES(mutex_);
  // Readable while there is something to take.
  int descriptor() const { return event_.get(); }

 private:
  explicit Inbox(Fd event) : event_(std::move(event)) {}

  const Fd event_;
  std::atomic<bool> any_{false};
  Mutex mutex_;
  std::vector<Item> items_ HVD_GUARDED_BY(mutex_);
  std::set<int> seen_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
