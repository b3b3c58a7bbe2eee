// SPDX-License-Identifier: Apache-2.0
// The pauses between tries of an action that may succeed a moment later: a server that is not up
// yet, a connection that was closed before it was authenticated, a host name that does not exist
// yet. The first pause is 5 ms; each pause is twice as long as the one before, up to 500 ms.
//
// Used by one thread, on its stack.
#pragma once

#include <chrono>

#include "base/deadline.h"

namespace hvd {

class RetryPauses {
 public:
  explicit RetryPauses(Deadline deadline) : deadline_(deadline) {}

  // Sleeps before the next try. Returns false, at once, if the deadline is before the end of the
  // pause.
  bool pause();
  // Number of tries: one more than the number of pauses.
  int tries() const { return tries_; }

 private:
  static constexpr std::chrono::milliseconds kFirst{5};
  static constexpr std::chrono::milliseconds kLongest{500};

  const Deadline deadline_;
  std::chrono::milliseconds next_ = kFirst;
  int tries_ = 1;
};

}  // namespace hvd
