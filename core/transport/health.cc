#include "transport/health.h"

#include <utility>

namespace hvd {

void Health::fail(const Status& reason) {
  HVD_CHECK(!reason.is_ok());
  MutexLock lock(mutex_);
  if (failed_) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  if (spread_) spread_(reason_);
}

Status Health::status() const {
  if (!failed()) return Status::ok();
  MutexLock lock(mutex_);
  return reason_;
}

void Health::on_failure(std::function<void(const Status&)> spread) {
  MutexLock lock(mutex_);
  spread_ = std::move(spread);
  if (failed_ && spread_) spread_(reason_);
}

}  // namespace hvd
