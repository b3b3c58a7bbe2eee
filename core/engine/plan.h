// SPDX-License-Identifier: Apache-2.0
// What all ranks of a process set do next. The coordinator decides it; it is equal on all ranks
// except for `details` and `joined_here`.
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
  // Carried out in this order. The cache of responses shares them.
  std::vector<std::shared_ptr<const Response>> responses;
  // By response: what the other ranks do not have.
  struct Detail {
    void* user_data = nullptr;    // of this rank's announcement; null if it has no such tensor
    ResponseId id = kNoResponse;  // of the response in the cache, unless it was not remembered
  };
  std::vector<Detail> details;
  // By response: the group that it was submitted with; empty unless groups matter.
  std::vector<uint32_t> groups;
  // This rank has joined, so it may not have some of the tensors.
  bool joined_here = false;
  // Set when every rank has joined: the rank of the set that joined last.
  std::optional<int> last_joined;
  // New settings (encode(Tunables)); they are valid from the next plan on.
  ByteBuffer tunables;
  // Not ok: the engine ends on all ranks after this plan, and all other operations fail with this.
  Status shutdown;
};

}  // namespace hvd
