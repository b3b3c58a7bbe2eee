// SPDX-License-Identifier: Apache-2.0
// A mutex that the compiler understands: clang's -Wthread-safety checks that what is marked
// HVD_GUARDED_BY(mutex_) is touched only with the lock held. Other compilers see plain std types.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/deadline.h"

#if defined(__clang__)
#define HVD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HVD_THREAD_ANNOTATION(x)
#endif

#define HVD_CAPABILITY(x) HVD_THREAD_ANNOTATION(capability(x))
#define HVD_SCOPED_CAPABILITY HVD_THREAD_ANNOTATION(scoped_lockable)
#define HVD_GUARDED_BY(x) HVD_THREAD_ANNOTATION(guarded_by(x))
#define HVD_REQUIRES(...) HVD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HVD_EXCLUDES(...) HVD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HVD_ACQUIRE(...) HVD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HVD_TRY_ACQUIRE(...) HVD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HVD_RELEASE(...) HVD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define HVD_NO_THREAD_SAFETY_ANALYSIS HVD_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace hvd {

class HVD_CAPABILITY("mutex") Mutex {
 public:
  void lock() HVD_ACQUIRE() { mutex_.lock(); }
  bool try_lock() HVD_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() HVD_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class HVD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HVD_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() HVD_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Releases a mutex that the caller has locked with try_lock().
class HVD_SCOPED_CAPABILITY AdoptedLock {
 public:
  explicit AdoptedLock(Mutex& mutex) HVD_REQUIRES(mutex) : mutex_(mutex) {}
  ~AdoptedLock() HVD_RELEASE() { mutex_.unlock(); }
  AdoptedLock(const AdoptedLock&) = delete;
  AdoptedLock& operator=(const AdoptedLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Waits until notified or until the deadline; false once the deadline has passed. Wakes
  // without reason are possible: call it in a loop that tests the condition. On a thread that can
  // be interrupted the mutex is free while the question is answered.
  bool wait(Mutex& mutex, Deadline deadline) HVD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool in_time = true;
    if (Interrupt::possible()) {
      const auto look = Deadline::after(Interrupt::kInterval);
      cond_.wait_until(lock, earlier(deadline, look).when());
      lock.unlock();
      in_time = !deadline.expired();
      lock.lock();
    } else if (deadline.is_never()) {
      cond_.wait(lock);
    } else {
      in_time = cond_.wait_until(lock, deadline.when()) == std::cv_status::no_timeout;
    }
    lock.release();
    return in_time;
  }
  void notify_one() { cond_.notify_one(); }
  void notify_all() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace hvd
