// SPDX-License-Identifier: Apache-2.0
// What all ranks of a process set do next: decided by its coordinator, equal everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "engine/response_cache.h"

namespace hvd {

struct Plan {
  // Carried out in this order. Shared with the cache of responses.
  std::vector<std::shared_ptr<const Response>> responses;
  // By response: what only this rank, or only this process, has of it.
  struct Detail {
    void* user_data = nullptr;    // of this rank's announcement; null if it has no such tensor
    ResponseId id = kNoResponse;  // of the response in the cache, unless it was not remembered
  };
  std::vector<Detail> details;
  // By response: the group that it was submitted with, where groups matter; else empty.
  std::vector<uint32_t> groups;
  // This rank has joined, and may be without some of the tensors.
  bool joined_here = false;
  // Every rank has joined; this one was the last. A rank of the set.
  std::optional<int> last_joined;
  // New settings, as the tuner encoded them; they hold from the next plan on.
  ByteBuffer tunables;
  // The engine ends on all ranks, and everything that is still waiting fails with this.
  Status shutdown;
};

}  // namespace hvd
