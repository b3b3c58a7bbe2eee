// SPDX-License-Identifier: Apache-2.0
#include "transport/health.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace hvd {

Status seen_by_others(int rank, const Status& failure) {
  return is_broken(failure) ? peer_lost(rank, failure.message()) : failure;
}

std::string_view reason_without_rank(const Status& failure) noexcept {
  const std::string_view text = failure.message();
  if (failure.lost_rank() < 0) return text;
  char number[16];
  const auto end = std::to_chars(number, number + sizeof(number), failure.lost_rank());
  std::string_view rest = text;
  for (const std::string_view part :
       {std::string_view("rank "), std::string_view(number, end.ptr - number),
        std::string_view(": ")}) {
    if (!rest.starts_with(part)) return text;
    rest.remove_prefix(part.size());
  }
  return rest;
}

void Health::fail(const Status& reason) noexcept {
  HVD_CHECK(!reason.is_ok());
  MutexLock lock(mutex_);
  if (failed_) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  failure_.notify_all();
  // Every listener is called even if another one throws: a listener without memory to pass the
  // failure on must not prevent the next one from waking a thread.
  for (const auto& [id, on_failure] : listeners_) {
    try {
      on_failure(reason_);
    } catch (...) {
      HVD_LOG(kError, "no memory to pass on a failure: {}", reason_.message());
    }
  }
}

bool Health::wait_for_failure(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!failed_ && failure_.wait(mutex_, deadline)) {
  }
  return failed_;
}

void Health::leave(const Status& reason) noexcept {
  left_ = true;
  fail(reason);
}

Status Health::status() const {
  if (!failed()) return Status::ok();
  MutexLock lock(mutex_);
  return reason_;
}

Health::Listener::Listener(Health& health, Callback on_failure) : health_(health) {
  MutexLock lock(health_.mutex_);
  if (health_.failed_) on_failure(health_.reason_);
  id_ = health_.next_id_++;
  health_.listeners_.emplace(id_, std::move(on_failure));
}

Health::Listener::~Listener() {
  MutexLock lock(health_.mutex_);
  health_.listeners_.erase(id_);
}

}  // namespace hvd
