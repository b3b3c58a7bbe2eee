// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: how every algorithm is tested without a launcher, and with
// faults. Sends copy: a rank that fails frees its buffers at once, whoever still reads.
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

// One direction between two ranks: the sends that the receiver has not taken yet.
class InprocChannel {
 public:
  // Fails, as does take(), with the reason given to close().
  Status push(ConstBytes out) HVD_EXCLUDES(mutex_);
  // Waits until `least` bytes are there, fills the front of `in` with a multiple of `unit` and
  // returns how many. kTimeout says how many bytes were there.
  Result<size_t> take(Bytes in, size_t least, size_t unit, Deadline deadline) HVD_EXCLUDES(mutex_);
  // Waits until the receiver has taken everything; fails if close() came before.
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

// What the ranks share. It outlives its transports.
class InprocHub {
 public:
  explicit InprocHub(Topology topology);
  // One rank per host: what algorithms between hosts expect.
  explicit InprocHub(int size);

  // To be asked for once per rank. A rank whose transport is destroyed has left: calls that need
  // it fail with kPeerLost, those between others go on.
  std::unique_ptr<Transport> transport(int rank);
  // The same for its control plane, whatever hosts the ranks are said to be on.
  std::unique_ptr<ControlPlane> control(int rank) HVD_EXCLUDES(control_mutex_);

  int size() const { return topology_.size(); }

 private:
  friend class InprocTransport;

  InprocChannel& channel(int from, int to) { return *channels_[from * size() + to]; }
  // Ok, or why the communicator ended on `rank`; then all channels are closed.
  Status status(int rank) HVD_EXCLUDES(ending_);
  // Ends the communicator with `here` on `rank` and `elsewhere` on the others, unless it has
  // ended already; returns why it ended on `rank`.
  Status end(int rank, const Status& here, const Status& elsewhere) HVD_EXCLUDES(ending_);

  const Topology topology_;
  std::vector<std::unique_ptr<InprocChannel>> channels_;  // from * size + to
  std::vector<Health> health_;                            // by rank
  Mutex control_mutex_;
  std::unique_ptr<Segment> control_ HVD_GUARDED_BY(control_mutex_);  // made by the first control()
  Mutex ending_;  // held until all channels are closed, so that nobody returns before
};

}  // namespace hvd
