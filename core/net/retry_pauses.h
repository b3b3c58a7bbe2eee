// SPDX-License-Identifier: Apache-2.0
// The pauses between tries of what may succeed a moment later: a server that is not up yet, a
// connection that was dropped before it was authenticated, a name that is not known yet. The first
// pause is 5 ms, each next one is twice as long, the longest is half a second.
#pragma once

#include <chrono>

#include "base/deadline.h"

namespace hvd {

class RetryPauses {
 public:
  explicit RetryPauses(Deadline deadline) : deadline_(deadline) {}

  // Sleeps before the next try. False, and at once, if the deadline comes before the pause ends.
  bool pause();
  // How many tries there were: one more than pauses.
  int tries() const { return tries_; }

 private:
  static constexpr std::chrono::milliseconds kFirst{5};
  static constexpr std::chrono::milliseconds kLongest{500};

  const Deadline deadline_;
  std::chrono::milliseconds next_ = kFirst;
  int tries_ = 1;
};

}  // namespace hvd
