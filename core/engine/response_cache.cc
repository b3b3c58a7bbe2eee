// SPDX-License-Identifier: Apache-2.0
#include "engine/response_cache.h"

#include <algorithm>

namespace hvd {

ResponseCache::Entry* ResponseCache::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

ResponseCache::Entry* ResponseCache::find(ResponseId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

bool ResponseCache::answers(const Response& cached, const Request& request, int rank) {
  const Request& known = cached.request;
  if (known.type != request.type || known.dtype != request.dtype || known.op != request.op ||
      known.root != request.root || known.device != request.device ||
      known.prescale != request.prescale || known.postscale != request.postscale) {
    return false;
  }
  if (!has_free_first_dimension(request.type)) return known.shape == request.shape;
  if (known.shape.size() != request.shape.size() || request.shape.empty()) return false;
  if (!std::equal(known.shape.begin() + 1, known.shape.end(), request.shape.begin() + 1)) {
    return false;
  }
  // The ranks exchange the sizes of an alltoall each time; those of an allgather are part of the
  // response.
  return request.type == RequestType::kAlltoall ||
         cached.first_dimensions[rank] == request.shape.front();
}

ResponseCache::Entry* ResponseCache::insert(std::shared_ptr<const Response> response,
                                            std::vector<Entry>& evicted) {
  erase(response->request.name, evicted);
  if (capacity_ == 0) return nullptr;
  if (by_id_.size() >= capacity_) {
    ++crowded_out_;
    shrink(capacity_ - 1, evicted);
  }
  auto entry = std::make_unique<Entry>();
  entry->id = next_id_++;
  entry->response = std::move(response);
  entry->age = ages_.insert(ages_.end(), entry.get());
  by_name_.emplace(entry->response->request.name, entry.get());
  return by_id_.emplace(next_id_ - 1, std::move(entry)).first->second.get();
}

void ResponseCache::erase(std::string_view name, std::vector<Entry>& evicted) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    evict(*found->second, evicted);
  }
}

void ResponseCache::set_capacity(size_t capacity, std::vector<Entry>& evicted) {
  capacity_ = capacity;
  shrink(capacity, evicted);
}

void ResponseCache::shrink(size_t most, std::vector<Entry>& evicted) {
  while (by_id_.size() > most) evict(*ages_.front(), evicted);
}

void ResponseCache::evict(Entry& entry, std::vector<Entry>& evicted) {
  ages_.erase(entry.age);
  by_name_.erase(entry.response->request.name);
  const auto found = by_id_.find(entry.id);
  evicted.push_back(std::move(*found->second));
  by_id_.erase(found);
}

}  // namespace hvd
