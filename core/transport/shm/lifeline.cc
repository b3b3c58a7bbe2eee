// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/lifeline.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "base/status.h"

namespace hvd {

Lifeline::State Lifeline::state() const {
  const uint32_t value = word.load(std::memory_order_acquire);
  if ((value & FUTEX_OWNER_DIED) != 0) return State::kDied;
  if (left.load(std::memory_order_acquire) != 0) return State::kLeft;
  return value == 0 ? State::kNotHeld : State::kAlive;
}

LifelineHolder::LifelineHolder() {
  head_.list.next = &head_.list;
  // The kernel finds the word of an entry at this distance from its node.
  head_.futex_offset = offsetof(Lifeline, word) - offsetof(Lifeline, node);
  head_.list_op_pending = nullptr;
}

LifelineHolder::~LifelineHolder() { HVD_CHECK(head_.list.next == &head_.list); }

void LifelineHolder::install_on_this_thread() {
  MutexLock lock(mutex_);
  thread_id_ = static_cast<uint32_t>(syscall(SYS_gettid));
  HVD_CHECK(syscall(SYS_set_robust_list, &head_, sizeof(head_)) == 0);
}

void LifelineHolder::hold(Lifeline& lifeline) {
  MutexLock lock(mutex_);
  HVD_CHECK(thread_id_ != 0);
  // The word is written before the list: the kernel ignores a word that does not hold the thread's
  // id. If the process dies between the two writes, the kernel finds no entry; after them it finds
  // a valid entry.
  lifeline.left.store(0, std::memory_order_relaxed);
  lifeline.word.store(thread_id_, std::memory_order_release);
  lifeline.node.next = head_.list.next;
  // Only the compiler can reorder these writes for the kernel, which walks the list after the
  // thread has ended.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  head_.list.next = &lifeline.node;
}

void LifelineHolder::release(Lifeline& lifeline) {
  MutexLock lock(mutex_);
  // `left` before the word is cleared: a peer never sees kNotHeld for a rank that has left.
  lifeline.left.store(1, std::memory_order_release);
  robust_list* before = &head_.list;
  while (before->next != &lifeline.node) {
    before = before->next;
    HVD_CHECK(before != &head_.list);
  }
  before->next = lifeline.node.next;
  lifeline.word.store(0, std::memory_order_release);
}

}  // namespace hvd
