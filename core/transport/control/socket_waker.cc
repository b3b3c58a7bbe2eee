// SPDX-License-Identifier: Apache-2.0
#include "transport/control/socket_waker.h"

namespace hvd {

Result<uint64_t> SocketWaker::add(int socket, Doorbell& doorbell) {
  MutexLock lock(mutex_);
  const uint64_t token = next_token_++;
  HVD_TRY(poller_.add_unarmed(socket, token));
  watched_.emplace(token, Watched{socket, &doorbell, 0});
  return token;
}

void SocketWaker::arm(uint64_t id, uint32_t events) {
  MutexLock lock(mutex_);
  Watched& watched = watched_.at(id);
  if (watched.armed_for == events) return;
  watched.armed_for = events;
  HVD_CHECK(poller_.arm(watched.socket, events, id).is_ok());
}

void SocketWaker::remove(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = watched_.find(id);
  poller_.remove(found->second.socket);
  watched_.erase(found);
}

bool SocketWaker::on_event(const PollEvent& event) {
  if (event.token < kTokens) return false;
  MutexLock lock(mutex_);
  const auto found = watched_.find(event.token);
  if (found == watched_.end()) return true;  // the event happened before remove()
  found->second.armed_for = 0;
  // The message is not read here, so its urgency is not known.
  found->second.doorbell->ring(Urgency::kUrgent);
  return true;
}

}  // namespace hvd
