// SPDX-License-Identifier: Apache-2.0
// One end of one edge of the control tree. No call waits. TreeControlPlane combines edges into a
// ControlPlane, owns them and calls them from one thread at a time.
#pragma once

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "transport/control/doorbell.h"

namespace hvd {

class ControlEdge {
 public:
  virtual ~ControlEdge() = default;

  // Writes what fits now and queues the rest, which later calls send. The message has at most
  // kMessageLimit bytes.
  virtual Status send(ConstBytes message, Urgency urgency) = 0;
  // Passes the messages that have arrived to `take` and returns their number. Returns a failure of
  // `take`.
  using Take = FunctionRef<Status(ConstBytes message)>;
  virtual Result<int> receive(Take take) = 0;

  // From now on the doorbell rings when a message arrives, or when there is room for queued bytes.
  virtual void arm() {}
  // Whether the queue is empty.
  virtual bool drained() const = 0;
  // Whether the other end is closed and all its messages have been received.
  virtual bool closed() = 0;
};

}  // namespace hvd
