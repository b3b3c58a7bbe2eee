// SPDX-License-Identifier: Apache-2.0
// One edge of the control tree, seen from one of its ends. Nothing waits. TreeControlPlane joins
// edges into a ControlPlane.
#pragma once

#include "base/bytes.h"
#include "base/function_ref.h"
#include "base/status.h"
#include "transport/control/doorbell.h"

namespace hvd {

class ControlEdge {
 public:
  virtual ~ControlEdge() = default;

  // Writes what fits and queues the rest, which goes out with later calls. The message is at most
  // kMessageLimit long.
  virtual Status send(ConstBytes message, Urgency urgency) = 0;
  // Hands over what has arrived and returns how many messages; a failure of `take` is passed on.
  using Take = FunctionRef<Status(ConstBytes message)>;
  virtual Result<int> receive(Take take) = 0;

  // From now on the doorbell rings when there is something to receive, or room for what is queued.
  virtual void arm() {}
  // Whether nothing is queued.
  virtual bool drained() const = 0;
  // Whether the other end is closed, and all that it had sent has been received.
  virtual bool closed() = 0;
};

}  // namespace hvd
