// Whether the ranks that this process works with are all still there. One per process and job,
// shared by all its transports; every wait looks at it, so that one loss ends every call.
#pragma once

#include <atomic>
#include <functional>

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

  // Calls `spread` with the failure, at once if there is one already and otherwise when it
  // happens, on the thread that called fail(). It must not block. Replaces an earlier one;
  // once this returns, the earlier one is not running any more.
  void on_failure(std::function<void(const Status&)> spread) HVD_EXCLUDES(mutex_);

 private:
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status reason_ HVD_GUARDED_BY(mutex_);
  std::function<void(const Status&)> spread_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
