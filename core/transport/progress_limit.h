// SPDX-License-Identifier: Apache-2.0
// The limit of one wait, when that is a limit on the time without progress (base/deadline.h): it
// counts from the last data that this rank has moved, or another rank as far as this one has heard.
// A rank may have nothing to do for long while others exchange a large block over a slow network.
#pragma once

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "transport/health.h"

namespace hvd {

class ProgressLimit {
 public:
  // `health` outlives it.
  ProgressLimit(Deadline limit, const Health& health) : limit_(limit), health_(health) {}

  // This rank has moved data.
  void restart() { still_since_.reset(); }

  // The time counts from the first call after restart(): waits that end at once never look at the
  // clock.
  bool expired() {
    if (limit_.patience() > Deadline::Clock::duration::zero()) {
      if (!still_since_) still_since_ = Deadline::Clock::now();
      // Not for ever: what others move may belong to another process set.
      const auto latest = *still_since_ + (kMostPatience - 1) * limit_.patience();
      limit_ = limit_.renewed(std::clamp(health_.progress_elsewhere(), *still_since_, latest));
    }
    return limit_.expired();
  }
  // As of the last call of expired().
  Deadline deadline() const { return limit_; }

 private:
  static constexpr int kMostPatience = 10;

  Deadline limit_;
  const Health& health_;
  std::optional<Deadline::Clock::time_point> still_since_;
};

}  // namespace hvd
