// SPDX-License-Identifier: Apache-2.0
// An agent's part of horovodrun --doctor: looks at its host, and measures the way to another one.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/protocol.h"
#include "launcher/rendezvous_service.h"

namespace hvd::launcher {

// Microseconds since 1970.
int64_t wall_clock_us();

class HostProbe {
 public:
  // Takes up to some seconds: Python is asked which frameworks it finds.
  Findings probe(const ProbeHost& request);
  // Takes about a second. What is measured is the control traffic of a job: authenticated, and
  // encrypted if TLS is on. Tensors travel no slower.
  Measurement measure(const MeasurePeer& peer) const;

 private:
  ProbeHost request_;
  RendezvousService rendezvous_;
};

}  // namespace hvd::launcher
