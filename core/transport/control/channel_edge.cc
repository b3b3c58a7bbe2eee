// SPDX-License-Identifier: Apache-2.0
#include "transport/control/channel_edge.h"

#include <utility>

namespace hvd {

Result<std::unique_ptr<ChannelEdge>> ChannelEdge::create(Channel channel, SocketWaker& waker,
                                                         Doorbell& doorbell) {
  HVD_TRY_ASSIGN(const uint64_t id, waker.add(channel.fd(), doorbell));
  return std::unique_ptr<ChannelEdge>(new ChannelEdge(std::move(channel), waker, id));
}

ChannelEdge::~ChannelEdge() {
  if (!fork_generation_.in_child()) waker_.remove(id_);
}

Status ChannelEdge::unless_closed(const Status& status) {
  if (status.code() != StatusCode::kPeerLost) return status;
  closed_ = true;
  return Status::ok();
}

Status ChannelEdge::send(ConstBytes message, Urgency /*urgency*/) {
  if (closed_) return Status::ok();
  HVD_TRY(channel_.queue_send(message));
  return unless_closed(channel_.flush_some());
}

Result<int> ChannelEdge::receive(Take take) {
  if (closed_) return 0;
  if (channel_.wants_write()) HVD_TRY(unless_closed(channel_.flush_some()));
  for (int count = 0;; ++count) {
    const auto message = channel_.try_recv();
    HVD_TRY(unless_closed(message.status()));
    if (closed_ || !message->has_value()) return count;
    HVD_TRY(take(**message));
  }
}

void ChannelEdge::arm() {
  if (!closed_) waker_.arm(id_, channel_.wanted_events());
}

}  // namespace hvd
