// SPDX-License-Identifier: Apache-2.0
// The control plane of one communicator: small messages along a tree of its ranks, beside and
// independent of the tensors that travel over its Transport.
//
// Within a host messages go through rings in shared memory, between hosts over connections whose
// messages are authenticated one by one. Nothing here waits, except the doorbell.
#pragma once

#include <utility>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "transport/control/doorbell.h"
#include "transport/control/tree.h"

namespace hvd {

// One caller at a time, but for doorbell().ring(). A failure is final. A neighbour that closes its
// control plane fails ours with kPeerLost, a moment after its last message has been received:
// check() finds out. So ranks part by an exchange of last messages. What has not gone out when a
// control plane is closed is lost, and so may be what the other side has not read by then if this
// side has not read everything.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Ranks are those of the communicator.
  const ControlTree& tree() const { return tree_; }

  // Sends at most 16 MiB to the parent or a child and rings there. Copies; what does not fit now
  // goes out with later calls of send and receive. Between two ranks messages stay in order.
  virtual Status send(int to, ConstBytes message, Urgency urgency) = 0;

  // Hands over every message that has arrived, and returns how many. `take` may send.
  using Take = FunctionRef<Status(int from, ConstBytes message)>;
  virtual Result<int> receive(Take take) = 0;

  // Ok, or why the job has failed: looks at the other ranks of the host and at whatever else would
  // be missed by somebody who sleeps. Call it after every few milliseconds of waiting.
  virtual Status check() = 0;

  // To be called between doorbell().listen() and the last look for news: from now on arrivals from
  // other hosts ring too, all of them as urgent ones, and so does room for what is still to go out.
  virtual void arm() {}

  // Whether everything that was sent has gone out.
  virtual bool drained() const = 0;
  // The same for what was sent to children.
  virtual bool drained_below() const = 0;

  // What rings when messages have come, and when the job has failed.
  virtual Doorbell& doorbell() = 0;

 protected:
  explicit ControlPlane(ControlTree tree) : tree_(std::move(tree)) {}

 private:
  const ControlTree tree_;
};

}  // namespace hvd
