// SPDX-License-Identifier: Apache-2.0
#include "engine/pending_table.h"

#include <utility>

namespace hvd {

PendingTensor& PendingTable::add(const ResponseCache::Entry& cached) {
  auto made = std::make_unique<PendingTensor>();
  made->cached = &cached;
  const auto [at, is_new] = known_.emplace(cached.id, std::move(made));
  HVD_CHECK(is_new);
  return *at->second;
}

PendingTensor& PendingTable::add(const std::string& name) {
  const auto [at, is_new] = unknown_.emplace(name, std::make_unique<PendingTensor>());
  HVD_CHECK(is_new);
  return *at->second;
}

void PendingTable::forget_id(ResponseId id, const std::string& name) {
  const auto found = known_.find(id);
  HVD_CHECK(found != known_.end());
  if (found->second->arrived != 0) {
    found->second->cached = nullptr;
    unknown_[name] = std::move(found->second);
  }
  known_.erase(found);
}

size_t PendingTable::waiting() const {
  size_t count = unknown_.size();
  for_each_known([&count](const PendingTensor& pending) { count += pending.arrived != 0; });
  return count;
}

}  // namespace hvd
