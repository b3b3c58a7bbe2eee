// SPDX-License-Identifier: Apache-2.0
#include "net/retry_pauses.h"

#include <poll.h>

#include <algorithm>

namespace hvd {

bool RetryPauses::pause() {
  if (deadline_.remaining() <= next_) return false;
  // In slices if this thread has an Interrupt: after an interrupt the deadline counts as expired.
  for (const Deadline end = Deadline::after(next_); !end.expired();) {
    (void)::poll(nullptr, 0, end.poll_milliseconds());
  }
  next_ = std::min(next_ * 2, kLongest);
  ++tries_;
  return true;
}

}  // namespace hvd
