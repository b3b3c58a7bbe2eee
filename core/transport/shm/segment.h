// SPDX-License-Identifier: Apache-2.0
// A piece of memory that several processes of one host map.
//
// Nothing is left behind, whenever and however processes die: the memory is a memfd, which has no
// name and ends with its last user, and which a container's small /dev/shm does not limit. Peers
// open it through /proc/<pid>/fd, which needs a common pid namespace; containers that share only
// /dev/shm use a named file there instead, which is unlinked once all have it open. Should all die
// before that, the file is unlinked by the next create(): nobody holds its lock.
//
// Memory that can run out is reserved as a whole when it is created: a write to a page that
// /dev/shm has no room for ends the process with SIGBUS. A memfd has no limit of its own, so its
// pages are made when they are first used, unless the system counts all memory
// (vm.overcommit_memory=2).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace hvd {

enum class SegmentKind {
  kMemfd,  // processes in one pid namespace
  kNamed,  // processes that share /dev/shm
  kHeap,   // threads of one process: lets the thread sanitizer see every access
};

class Segment {
 public:
  // `bytes` of zeros. kUnavailable when the machine cannot (no room, no permission).
  static Result<std::unique_ptr<Segment>> create(SegmentKind kind, size_t bytes);
  // `descriptor` is what the creator's descriptor() said; it has to come from a trusted peer. The
  // creator has to be alive still.
  static Result<std::unique_ptr<Segment>> attach(const std::string& descriptor);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Bytes memory() const { return memory_; }
  const std::string& descriptor() const { return descriptor_; }

  // Once every peer is attached; the memory stays.
  void forget_name();

  // Makes the pages of `part` present and mapped now, so that no later write faults. kUnavailable
  // when there is no room for them.
  static Status populate(Bytes part);

 private:
  Segment() = default;

  Bytes memory_;
  std::string descriptor_;
  std::string path_;  // of a named file that still has its name
  int fd_ = -1;
  bool mapped_ = false;
  std::shared_ptr<std::byte> heap_;
};

}  // namespace hvd
