// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: tests of algorithms use it without a launcher, also with faults.
// Sends copy: a rank that fails may free its buffers at once, while peers still read.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "transport/control/control_plane.h"
#include "transport/health.h"
#include "transport/shm/ring_edge.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace hvd {

// One direction between two ranks: holds the sends that the receiver has not taken yet. Safe from
// any thread.
class InprocChannel {
 public:
  // After close(), push() and take() fail with its reason.
  Status push(ConstBytes out) HVD_EXCLUDES(mutex_);
  // Waits for `least` bytes, fills the front of `in` with a multiple of `unit` bytes and returns
  // their number. The message of kTimeout contains how many bytes had arrived.
  Result<size_t> take(Bytes in, size_t least, size_t unit, Deadline deadline) HVD_EXCLUDES(mutex_);
  // Waits until the receiver has taken everything; fails if close() was called before.
  Status drain(Deadline deadline) HVD_EXCLUDES(mutex_);

  // Ends every wait. The first reason is kept.
  void close(const Status& reason) HVD_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  struct Message {
    std::vector<std::byte> bytes;
    size_t taken;
  };
  std::deque<Message> pending_ HVD_GUARDED_BY(mutex_);
  size_t available_ HVD_GUARDED_BY(mutex_) = 0;  // bytes in pending_
  Status closed_ HVD_GUARDED_BY(mutex_);
  bool undelivered_ HVD_GUARDED_BY(mutex_) = false;  // close() dropped bytes
};

// The state that the ranks share. It must outlive its transports and control planes. Safe from any
// thread; a failure of one rank ends the communicator on all of them.
class InprocHub {
 public:
  explicit InprocHub(Topology topology);
  // One rank per host, for algorithms between hosts.
  explicit InprocHub(int size);

  // Call it once per rank. A rank whose transport is destroyed has left: calls that need it fail
  // with kPeerLost; calls between other ranks continue.
  std::unique_ptr<Transport> transport(int rank);
  // The same for the control plane; all edges are rings in memory, also between hosts.
  std::unique_ptr<ControlPlane> control(int rank) HVD_EXCLUDES(control_mutex_);

  int size() const { return topology_.size(); }

 private:
  friend class InprocTransport;

  InprocChannel& channel(int from, int to) { return *channels_[from * size() + to]; }
  // Ok, or why the communicator ended on `rank`; then all channels are closed.
  Status status(int rank) HVD_EXCLUDES(ending_);
  // Ends the communicator with `here` on `rank` and `elsewhere` on the other ranks, unless it has
  // ended already. Returns why it ended on `rank`.
  Status end(int rank, const Status& here, const Status& elsewhere) HVD_EXCLUDES(ending_);

  const Topology topology_;
  std::vector<std::unique_ptr<InprocChannel>> channels_;  // from * size + to
  std::vector<Health> health_;                            // by rank
  Mutex control_mutex_;
  std::unique_ptr<Segment> control_ HVD_GUARDED_BY(control_mutex_);  // made by the first control()
  Mutex ending_;  // held until all channels are closed, so that no call returns before
};

}  // namespace hvd
