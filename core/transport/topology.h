// SPDX-License-Identifier: Apache-2.0
// Which ranks of a communicator share a host. Pure computation; every rank gets the same result.
#pragma once

#include <vector>

namespace hvd {

// Immutable, so it is safe from any thread.
class Topology {
 public:
  // `host_of[r]` is any number that is equal for two ranks if and only if they share a host.
  explicit Topology(const std::vector<int>& host_of);
  // All ranks on one host.
  static Topology one_host(int size) { return Topology(std::vector<int>(size, 0)); }

  int size() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(ranks_.size()); }
  // Hosts are numbered in the order of their lowest rank.
  int host_of(int rank) const { return host_of_[rank]; }
  // Ascending.
  const std::vector<int>& ranks_on(int host) const { return ranks_[host]; }
  // Position of `rank` among the ranks of its host.
  int local_rank(int rank) const { return local_rank_[rank]; }
  int smallest_host() const { return smallest_host_; }  // ranks on the host with the fewest
  int largest_host() const { return largest_host_; }    // ranks on the host with the most

 private:
  std::vector<int> host_of_;
  std::vector<int> local_rank_;
  std::vector<std::vector<int>> ranks_;
  int smallest_host_ = 0;
  int largest_host_ = 0;
};

}  // namespace hvd
