// SPDX-License-Identifier: Apache-2.0
// A mutex with annotations for clang's -Wthread-safety, which checks at compile time that members
// marked HVD_GUARDED_BY(mutex_) are used only while the lock is held, and that functions marked
// HVD_REQUIRES(mutex_) are called with it. Other compilers see plain std types.
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

// std::mutex with annotations. Not recursive.
class HVD_CAPABILITY("mutex") Mutex {
 public:
  void lock() HVD_ACQUIRE() { mutex_.lock(); }
  bool try_lock() HVD_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() HVD_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex for the lifetime of this object, as std::lock_guard does.
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

// std::condition_variable whose waits end at a Deadline.
class CondVar {
 public:
  // Waits until notified or until the deadline; returns false once the deadline has passed.
  // Spurious wakes are possible: call it in a loop that tests the condition. On a thread that has
  // an Interrupt, the mutex is unlocked while expired() calls the user's function, because that
  // function may block on a lock whose owner waits for this mutex.
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
