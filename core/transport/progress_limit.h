// SPDX-License-Identifier: Apache-2.0
// The limit of one wait when the deadline limits the time without progress (base/deadline.h). The
// time counts from the moment when this rank last moved data, or when another rank did so according
// to its heartbeats. Other ranks count because this rank may wait long while they exchange a large
// block over a slow network.
#pragma once

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "transport/health.h"

namespace hvd {

// Belongs to one wait and its thread.
class ProgressLimit {
 public:
  // `health` must outlive it.
  ProgressLimit(Deadline limit, const Health& health) : limit_(limit), health_(health) {}

  // This rank has moved data.
  void restart() { still_since_.reset(); }

  // The time counts from the first call after restart(), so that a wait that ends at once never
  // reads the clock.
  bool expired() {
    if (limit_.patience() > Deadline::Clock::duration::zero()) {
      if (!still_since_) still_since_ = Deadline::Clock::now();
      // The extension is limited, because the progress of other ranks may belong to another process
      // set.
      const auto latest = *still_since_ + (kMostPatience - 1) * limit_.patience();
      limit_ = limit_.renewed(std::clamp(health_.progress_elsewhere(), *still_since_, latest));
    }
    return limit_.expired();
  }
  // The limit as of the last call of expired().
  Deadline deadline() const { return limit_; }

 private:
  // Progress of other ranks extends a wait to at most this many times its patience.
  static constexpr int kMostPatience = 10;

  Deadline limit_;
  const Health& health_;
  std::optional<Deadline::Clock::time_point> still_since_;
};

}  // namespace hvd
