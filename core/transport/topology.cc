// SPDX-License-Identifier: Apache-2.0
#include "transport/topology.h"

#include <algorithm>
#include <map>

namespace hvd {

Topology::Topology(const std::vector<int>& host_of) {
  std::map<int, int> index;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    const auto [entry, added] = index.try_emplace(host_of[rank], static_cast<int>(index.size()));
    const int host = entry->second;
    if (added) ranks_.emplace_back();
    host_of_.push_back(host);
    local_rank_.push_back(static_cast<int>(ranks_[host].size()));
    ranks_[host].push_back(rank);
  }
  if (ranks_.empty()) return;
  const auto [fewest, most] =
      std::minmax_element(ranks_.begin(), ranks_.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
  smallest_host_ = static_cast<int>(fewest->size());
  largest_host_ = static_cast<int>(most->size());
}

}  // namespace hvd
