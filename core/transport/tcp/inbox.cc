// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace hvd {

Result<std::shared_ptr<Inbox>> Inbox::create() {
  Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event.valid()) return io_error("make an eventfd", errno);
  return std::shared_ptr<Inbox>(new Inbox(std::move(event)));
}

bool Inbox::put(Item item) {
  MutexLock lock(mutex_);
  if (!seen_.insert(item.from).second) return false;
  items_.push_back(std::move(item));
  any_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof(one));
  return true;
}

std::vector<Inbox::Item> Inbox::take() {
  if (!any_.load(std::memory_order_acquire)) return {};
  MutexLock lock(mutex_);
  any_.store(false, std::memory_order_relaxed);
  uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof(count));
  return std::exchange(items_, {});
}

}  // namespace hvd
