// SPDX-License-Identifier: Apache-2.0
// Tells at once when a process of this host has died.
//
// A socket or pidfd speaks only after the kernel has torn the dead process's memory down, about
// 70 ms per GiB. Its robust futex list runs before that: for each word on the list that holds the
// dying thread's id the kernel sets a bit, which peers see in shared memory without a system call
// (263 us after SIGKILL of a process of 1 GiB, against 70 000).
//
// The list belongs to a thread, so words have to be held by one that lives as long as its process.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace hvd {

// In shared memory, zero at first; one per rank.
struct alignas(64) Lifeline {
  enum class State { kNotHeld, kAlive, kLeft, kDied };

  robust_list node;            // touched only by the owner and its kernel
  std::atomic<uint32_t> word;  // the holder's thread id; the kernel adds FUTEX_OWNER_DIED
  std::atomic<uint32_t> left;  // set by a rank that goes in peace

  State state() const;
};

// Holds the lifelines of one process. Made and used by any thread; run by one that lives as long
// as the process or until every lifeline has been released.
class LifelineHolder {
 public:
  LifelineHolder();
  ~LifelineHolder();
  LifelineHolder(const LifelineHolder&) = delete;
  LifelineHolder& operator=(const LifelineHolder&) = delete;

  // Once, on the long-lived thread, before the first hold(). The thread may use no robust
  // pthread mutex, whose list this replaces.
  void install_on_this_thread();

  void hold(Lifeline& lifeline) HVD_EXCLUDES(mutex_);
  // Marks that the rank has left in peace.
  void release(Lifeline& lifeline) HVD_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  robust_list_head head_;  // read by the kernel when the thread ends
  uint32_t thread_id_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
