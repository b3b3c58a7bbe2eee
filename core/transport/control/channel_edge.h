// SPDX-License-Identifier: Apache-2.0
// An edge between hosts, or within one that shares no memory: a connection whose messages are
// authenticated one by one.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fork_generation.h"
#include "net/channel.h"
#include "transport/control/doorbell.h"
#include "transport/control/edge.h"
#include "transport/control/socket_waker.h"

namespace hvd {

class ChannelEdge final : public ControlEdge {
 public:
  // `waker` and `doorbell`, which is this rank's, outlive the edge.
  static Result<std::unique_ptr<ChannelEdge>> create(Channel channel, SocketWaker& waker,
                                                     Doorbell& doorbell);
  ~ChannelEdge() override;

  // The other side rings for itself.
  Status send(ConstBytes message, Urgency urgency) override;
  Result<int> receive(Take take) override;
  void arm() override;
  bool drained() const override { return !channel_.wants_write(); }
  bool closed() override { return closed_; }

 private:
  ChannelEdge(Channel channel, SocketWaker& waker, uint64_t id)
      : channel_(std::move(channel)), waker_(waker), id_(id) {}
  // Passes failures on, except that the other side has closed the connection.
  Status unless_closed(const Status& status);

  const ForkGeneration fork_generation_;
  Channel channel_;
  SocketWaker& waker_;
  const uint64_t id_;
  bool closed_ = false;
};

}  // namespace hvd
