// SPDX-License-Identifier: Apache-2.0
// A range of memory that several processes of one host map.
//
// No memory is left behind when processes die. The memory is a memfd: it has no name, the kernel
// frees it with its last user, and a container's small /dev/shm does not limit it. Peers open it
// through /proc/<pid>/fd, which needs a common pid namespace. Containers that share only /dev/shm
// use a named file there instead. The file is unlinked once all ranks have opened it. Each process
// that has opened it holds a shared lock on it. If all of them die before the file is unlinked, no
// process holds the lock, and the next create() unlinks the file.
//
// Memory that can run out is reserved as a whole when it is created: a write to a page that
// /dev/shm has no room for ends the process with SIGBUS. A memfd has no limit of its own, so its
// pages are allocated when they are first used, unless the system counts all memory
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

// One per process and piece of memory; it owns the mapping. create(), attach() and populate() are
// safe from any thread, the rest belongs to the owner.
class Segment {
 public:
  // `bytes` of zeros, page-aligned. kUnavailable when the machine cannot (no room, no permission).
  static Result<std::unique_ptr<Segment>> create(SegmentKind kind, size_t bytes);
  // `descriptor` is the creator's descriptor(). It must come from a trusted peer, and the creator
  // must still hold the segment. kUnavailable when the memory cannot be opened or is another one.
  static Result<std::unique_ptr<Segment>> attach(const std::string& descriptor);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Bytes memory() const { return memory_; }
  // The text by which a peer attaches; not a file descriptor.
  const std::string& descriptor() const { return descriptor_; }

  // Removes the name of a kNamed segment; the memory stays. Call it once every peer is attached.
  void forget_name();

  // Allocates and maps the pages of `part` now, so that no later write faults. Does not change
  // their contents. kUnavailable when there is no room for them.
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
