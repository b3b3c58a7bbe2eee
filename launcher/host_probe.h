// SPDX-License-Identifier: Apache-2.0
// The agent's part of horovodrun --doctor: probes its own host and measures the network path to
// another host.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/protocol.h"
#include "launcher/rendezvous_service.h"

namespace hvd::launcher {

// Microseconds since 1970-01-01 UTC.
int64_t wall_clock_us();

// Blocks the calling thread, which is the agent's only one. After probe() the object runs a
// rendezvous server until it is destroyed, so that other hosts can measure the path to this one.
class HostProbe {
 public:
  // Takes up to 5 s: it starts Python to find the frameworks. Never fails; `problem` of the result
  // is set if the rendezvous server could not be started.
  Findings probe(const ProbeHost& request);
  // Takes about a second: 0.3 s for latency, 0.7 s for bandwidth. Measures requests to the
  // rendezvous server. They are authenticated, and encrypted if TLS is on, so tensors are at least
  // as fast.
  // Call probe() first. On failure `problem` of the result is set.
  Measurement measure(const MeasurePeer& peer) const;

 private:
  ProbeHost request_;
  RendezvousService rendezvous_;
};

}  // namespace hvd::launcher
