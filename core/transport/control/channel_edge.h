// SPDX-License-Identifier: Apache-2.0
// An edge between hosts, or within a host whose ranks share no memory: a connection on which each
// message is authenticated.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fork_generation.h"
#include "net/channel.h"
#include "transport/control/doorbell.h"
#include "transport/control/edge.h"
#include "transport/control/socket_waker.h"

namespace hvd {

// Owns the connection. Threads: as for ControlEdge. A connection that the peer has closed is not a
// failure here; closed() reports it.
class ChannelEdge final : public ControlEdge {
 public:
  // `doorbell` is the doorbell of this rank. It and `waker` must outlive the edge.
  static Result<std::unique_ptr<ChannelEdge>> create(Channel channel, SocketWaker& waker,
                                                     Doorbell& doorbell);
  ~ChannelEdge() override;

  // Ignores `urgency`: the waker of the peer rings there.
  Status send(ConstBytes message, Urgency urgency) override;
  Result<int> receive(Take take) override;
  void arm() override;
  bool drained() const override { return !channel_.wants_write(); }
  bool closed() override { return closed_; }

 private:
  ChannelEdge(Channel channel, SocketWaker& waker, uint64_t id)
      : channel_(std::move(channel)), waker_(waker), id_(id) {}
  // Returns `status`, or ok with closed_ set if the peer has closed the connection.
  Status unless_closed(const Status& status);

  const ForkGeneration fork_generation_;
  Channel channel_;
  SocketWaker& waker_;
  const uint64_t id_;
  bool closed_ = false;
};

}  // namespace hvd
