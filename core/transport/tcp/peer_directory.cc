// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/peer_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <utility>

namespace hvd {
namespace {

// The result identifies a namespace or a device. It is 0 where the system does not show it. Ranks
// on such systems have equal numbers, and the other fields of their records distinguish them.
uint64_t inode_of(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

uint64_t device_of(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? info.st_dev : 0;
}

std::span<const uint8_t> address_bytes(const Endpoint& endpoint) {
  if (endpoint.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(endpoint.address());
    return {reinterpret_cast<const uint8_t*>(&v4->sin_addr), 4};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(endpoint.address());
  return {reinterpret_cast<const uint8_t*>(&v6->sin6_addr), 16};
}

bool same_address(const Endpoint& a, const Endpoint& b) { return a.with_port(0) == b.with_port(0); }

bool same_subnet(const PeerRecord::Address& a, const PeerRecord::Address& b) {
  if (a.endpoint.family() != b.endpoint.family() || a.prefix_length != b.prefix_length) {
    return false;
  }
  const auto left = address_bytes(a.endpoint);
  const auto right = address_bytes(b.endpoint);
  for (size_t bit = 0; bit < std::min<size_t>(a.prefix_length, left.size() * 8); ++bit) {
    const int mask = 0x80 >> (bit % 8);
    if ((left[bit / 8] & mask) != (right[bit / 8] & mask)) return false;
  }
  return true;
}

}  // namespace

Result<PeerRecord> describe_this_process(const std::string& host_name) {
  PeerRecord record;
  if (host_name.size() > kNameLimit) {
    return invalid_argument("HOROVOD_HOSTNAME is longer than " + std::to_string(kNameLimit));
  }
  record.host_name = host_name;
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  std::getline(boot_id, record.boot_id);
  record.shm_device = device_of("/dev/shm");
  record.net_space = inode_of("/proc/self/ns/net");
  record.pid_space = inode_of("/proc/self/ns/pid");
  record.pid = ::getpid();
  record.uid = ::getuid();
  return record;
}

PeerDirectory::PeerDirectory(int rank, std::vector<PeerRecord> records)
    : rank_(rank), records_(std::move(records)) {}

Topology PeerDirectory::topology(const std::vector<int>& among) const {
  std::map<std::string, int> hosts;
  std::vector<int> host_of;
  for (const int rank : among) {
    host_of.push_back(
        hosts.try_emplace(records_[rank].host_identity(), static_cast<int>(hosts.size()))
            .first->second);
  }
  return Topology(host_of);
}

bool PeerDirectory::same_network(int peer) const {
  return records_[peer].boot_id == records_[rank_].boot_id &&
         records_[peer].net_space == records_[rank_].net_space;
}

bool PeerDirectory::is_local(int peer) const {
  return same_network(peer) && records_[peer].host_identity() == records_[rank_].host_identity();
}

bool PeerDirectory::all_local() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (!is_local(peer)) return false;
  }
  return true;
}

std::vector<Endpoint> PeerDirectory::reachable(int peer) const {
  std::vector<Endpoint> near;
  std::vector<Endpoint> far;
  const auto& mine = records_[rank_].addresses;
  for (const PeerRecord::Address& address : records_[peer].addresses) {
    const bool ours = std::any_of(mine.begin(), mine.end(), [&](const auto& own) {
      return same_address(own.endpoint, address.endpoint);
    });
    // Every machine has a loopback address, and many machines use the same bridge address for their
    // containers. Such an address of another machine leads back to this machine.
    if ((address.loopback || ours) && !same_network(peer)) continue;
    const bool neighbour = std::any_of(mine.begin(), mine.end(),
                                       [&](const auto& own) { return same_subnet(own, address); });
    (neighbour ? near : far).push_back(address.endpoint);
  }
  near.insert(near.end(), far.begin(), far.end());
  return near;
}

int PeerDirectory::ranks_on_machine() const {
  return static_cast<int>(std::count_if(
      records_.begin(), records_.end(),
      [this](const PeerRecord& record) { return record.boot_id == records_[rank_].boot_id; }));
}

bool PeerDirectory::shares_pids(int peer) const {
  return records_[peer].boot_id == records_[rank_].boot_id &&
         records_[peer].pid_space == records_[rank_].pid_space;
}

SegmentKind PeerDirectory::segment_kind(const std::vector<int>& ranks) const {
  const PeerRecord& first = records_[ranks.front()];
  bool one_process = true;
  bool visible = true;  // to each other under /proc
  for (const int rank : ranks) {
    const PeerRecord& peer = records_[rank];
    visible = visible && peer.pid_space == first.pid_space && peer.uid == first.uid;
    one_process = one_process && peer.pid == first.pid;
  }
  if (!visible) return SegmentKind::kNamed;
  return one_process ? SegmentKind::kHeap : SegmentKind::kMemfd;
}

}  // namespace hvd
