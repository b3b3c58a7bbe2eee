// SPDX-License-Identifier: Apache-2.0
// The state of one rank's negotiation: the tensors that at least one rank has and that no plan has
// answered. Only the negotiator uses it, on the thread that runs the engine.
//
// A tensor is known or unknown. A known tensor has a response in the cache. The table has one
// PendingTensor for each known tensor, under its ResponseId, even while no rank has the tensor. So
// a step that repeats earlier tensors finds them by number and allocates nothing. An unknown tensor
// is in the table under its name, from its first arrival until the plan that answers it.
//
// The table owns every PendingTensor. Its address does not change until it is erased, not even when
// its tensor becomes unknown (forget_id).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/request.h"
#include "engine/response_cache.h"

namespace hvd {

// A set of parties, with one bit for each party. A party is a child of this rank with all ranks
// below it, or this rank itself.
using Parties = uint32_t;

// The request that one or more parties have announced under one name.
struct MergedRequest {
  Request request;
  int rank = 0;  // a rank of the process set that asked for exactly this request
  struct FirstDimension {
    int rank;
    int64_t rows;
  };
  // Of an allgather: one element for every rank of the parties.
  std::vector<FirstDimension> first_dimensions;
  Status conflict;  // not ok: the requests of two ranks do not match
};

struct PendingTensor {
  Parties arrived = 0;     // the parties that have the tensor
  bool complete = false;   // all parties that have not joined have it
  bool announced = false;  // this rank has announced it to its parent
  uint32_t group = 0;
  void* user_data = nullptr;  // of this rank's announcement
  // The cached response of a known tensor; null for an unknown one.
  const ResponseCache::Entry* cached = nullptr;
  // Null while every arrival so far has used the number of `cached`.
  std::unique_ptr<MergedRequest> merged;

  bool has_arrived(int party) const { return (arrived >> party & 1) != 0; }
  // Back to the state in which no party has the tensor.
  void clear_arrivals() {
    const ResponseCache::Entry* const known = cached;
    *this = PendingTensor{};
    cached = known;
  }
};

class PendingTable {
 public:
  // Null when there is none. The first overload finds known tensors, the second finds unknown
  // tensors.
  PendingTensor* find(ResponseId id) const {
    const auto found = known_.find(id);
    return found == known_.end() ? nullptr : found->second.get();
  }
  PendingTensor* find(const std::string& name) const {
    const auto found = unknown_.find(name);
    return found == unknown_.end() ? nullptr : found->second.get();
  }

  // Adds a tensor that the table does not have. `cached` must stay valid until the tensor is erased
  // or forget_id() is called for it.
  PendingTensor& add(const ResponseCache::Entry& cached);
  PendingTensor& add(const std::string& name);

  // The cache has evicted number `id`. If no party has the tensor, it is erased. Otherwise it is
  // from now on an unknown tensor under `name`, and its `cached` is null.
  void forget_id(ResponseId id, const std::string& name);
  void erase(const std::string& name) { unknown_.erase(name); }

  // Tensors that at least one party has.
  size_t waiting() const;

  template <typename Visit>
  void for_each_known(Visit visit) const {
    for (const auto& [id, pending] : known_) visit(*pending);
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for_each_known(visit);
    for (const auto& [name, pending] : unknown_) visit(*pending);
  }

 private:
  std::unordered_map<ResponseId, std::unique_ptr<PendingTensor>> known_;
  std::unordered_map<std::string, std::unique_ptr<PendingTensor>> unknown_;
};

}  // namespace hvd
