// SPDX-License-Identifier: Apache-2.0
// A plan: what all ranks of a process set do next. The coordinator makes it. It is equal on all
// ranks, except for `details` and `joined_here`.
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
  // Carried out in this order. Shared with the response cache.
  std::vector<std::shared_ptr<const Response>> responses;
  // One for each response: data of this rank alone.
  struct Detail {
    void* user_data = nullptr;    // from announce(); null if this rank lacks the tensor
    ResponseId id = kNoResponse;  // of the response in the cache; kNoResponse if it is not there
  };
  std::vector<Detail> details;
  // One for each response: the group of tensors that it was submitted in. Empty unless groups
  // matter.
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
