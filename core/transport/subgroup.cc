// SPDX-License-Identifier: Apache-2.0
#include "transport/subgroup.h"

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

int position_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  HVD_CHECK(found != ranks.end());
  return static_cast<int>(found - ranks.begin());
}

Topology topology_of(const std::vector<int>& ranks, const Topology& whole) {
  std::vector<int> host_of;
  for (const int rank : ranks) host_of.push_back(whole.host_of(rank));
  return Topology(host_of);
}

}  // namespace

SubTransport::SubTransport(Transport& whole, std::vector<int> ranks)
    : Transport(position_of(whole.rank(), ranks), topology_of(ranks, whole.topology())),
      whole_(whole),
      ranks_(std::move(ranks)) {}

}  // namespace hvd
