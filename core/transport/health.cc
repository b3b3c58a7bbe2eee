#include "transport/health.h"

#include <utility>

namespace hvd {

void Health::fail(const Status& reason) {
  HVD_CHECK(!reason.is_ok());
  MutexLock lock(mutex_);
  if (failed_) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  for (const auto& [id, hear] : listeners_) hear(reason_);
}

Status Health::status() const {
  if (!failed()) return Status::ok();
  MutexLock lock(mutex_);
  return reason_;
}

Health::Listener::Listener(Health& health, Hear hear) : health_(health) {
  MutexLock lock(health_.mutex_);
  if (health_.failed_) hear(health_.reason_);
  id_ = health_.next_id_++;
  health_.listeners_.emplace(id_, std::move(hear));
}

Health::Listener::~Listener() {
  MutexLock lock(health_.mutex_);
  health_.listeners_.erase(id_);
}

}  // namespace hvd
