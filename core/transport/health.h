// Whether the ranks that this process works with are all still there. One per process and job,
// shared by all its transports; every wait looks at it, so that one loss ends every call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "base/status.h"

namespace hvd {

class Health {
 public:
  // The first failure is kept, later ones are ignored. Safe from any thread.
  void fail(const Status& reason) HVD_EXCLUDES(mutex_);

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ok, or why it failed.
  Status status() const HVD_EXCLUDES(mutex_);

  // Hears of the failure while it exists: at once if there is one already and otherwise when it
  // happens, on the thread that calls fail(). What it calls must neither block nor call back.
  // Once the destructor has returned it is not being called any more. `health` outlives it.
  class Listener {
   public:
    using Hear = std::function<void(const Status& reason)>;
    Listener(Health& health, Hear hear);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Health& health_;
    uint64_t id_ = 0;
  };

 private:
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status reason_ HVD_GUARDED_BY(mutex_);
  std::map<uint64_t, Listener::Hear> listeners_ HVD_GUARDED_BY(mutex_);  // in order of arrival
  uint64_t next_id_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
