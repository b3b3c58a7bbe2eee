// SPDX-License-Identifier: Apache-2.0
// The control plane of one communicator: small messages along a tree of its ranks, independent of
// the tensors that its Transport moves.
//
// Within a host messages use rings in shared memory; between hosts they use connections on which
// each message is authenticated. Nothing here waits, except the doorbell.
#pragma once

#include <utility>

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "transport/control/doorbell.h"
#include "transport/control/tree.h"

namespace hvd {

// One caller at a time, except doorbell().ring(). A failure is final. If a neighbour closes its
// control plane, check() fails with kPeerLost 500 ms after this rank has received the neighbour's
// last message. So ranks exchange goodbyes before they close. Closing discards unsent messages. If
// this rank closes while it has unread input, messages that the peer has not read may be lost too
// (TCP reset).
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // Ranks are those of the communicator.
  const ControlTree& tree() const { return tree_; }

  // Sends at most 16 MiB to the parent or a child and rings its doorbell. Copies the message; bytes
  // that do not fit now are sent by later calls of send and receive. Between two ranks messages
  // stay in order.
  virtual Status send(int to, ConstBytes message, Urgency urgency) = 0;

  // Passes every message that has arrived to `take`, and returns their number. `take` may send. A
  // failure of `take` ends the control plane.
  using Take = FunctionRef<Status(int from, ConstBytes message)>;
  virtual Result<int> receive(Take take) = 0;

  // Ok, or the reason why the job has failed. Checks the failures that ring no doorbell: the death
  // of other processes of the host, and closed edges. Call it after every few milliseconds of
  // waiting.
  virtual Status check() = 0;

  // Call it between doorbell().listen() and the last receive() before the sleep. From then on the
  // doorbell also rings when a message from another host arrives, and when there is room for unsent
  // messages. All these rings are urgent.
  virtual void arm() {}

  // Whether all messages have left this rank's queues.
  virtual bool drained() const = 0;
  // The same for the messages to children.
  virtual bool drained_below() const = 0;

  // Rings when messages have arrived, and when the job has failed.
  virtual Doorbell& doorbell() = 0;

 protected:
  explicit ControlPlane(ControlTree tree) : tree_(std::move(tree)) {}

 private:
  const ControlTree tree_;
};

}  // namespace hvd
