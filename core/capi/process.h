// SPDX-License-Identifier: Apache-2.0
// The one job that a process has, if any. It is never destroyed: at exit other threads may still be
// at work, and a destructor that waits for one of them would hang the exit.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/fork_generation.h"
#include "base/mutex.h"
#include "base/status.h"
#include "capi/operation.h"
#include "capi/rendezvous_setup.h"
#include "engine/job.h"

namespace hvd {

// A mutex whose wait can be interrupted: a job takes seconds to start.
class HVD_CAPABILITY("mutex") InterruptibleMutex {
 public:
  // False if this thread was interrupted (base/interrupt.h).
  bool lock() HVD_TRY_ACQUIRE(true) {
    MutexLock lock(mutex_);
    while (taken_) {
      if (!free_.wait(mutex_, Deadline::never())) return false;
    }
    return taken_ = true;
  }
  void unlock() HVD_RELEASE() {
    MutexLock lock(mutex_);
    taken_ = false;
    free_.notify_all();  // one of them may just have been interrupted
  }

  // Gives back a turn that was taken.
  class HVD_SCOPED_CAPABILITY Lock {
   public:
    explicit Lock(InterruptibleMutex& mutex) HVD_REQUIRES(mutex) : mutex_(mutex) {}
    ~Lock() HVD_RELEASE() { mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    InterruptibleMutex& mutex_;
  };

 private:
  Mutex mutex_;
  CondVar free_;
  bool taken_ HVD_GUARDED_BY(mutex_) = false;
};

class Process {
 public:
  // A forked child gets one of its own, without a job; what it has copied from its parent, locks
  // that may be held for ever among it, stays untouched.
  static Process& current();

  // Null if there is none. Whoever holds it keeps it alive, though it may have ended.
  std::shared_ptr<Job> job() HVD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return job_;
  }

  // What a submission starts from, for one look at the lock: the job, null if there is none, and an
  // operation.
  struct Submission {
    std::shared_ptr<Job> job;
    std::unique_ptr<hvd_operation> operation;
  };
  Submission begin_submission() HVD_EXCLUDES(mutex_);
  // An operation that nobody needs any more, for the next submission.
  void put_aside(std::unique_ptr<hvd_operation> operation) HVD_EXCLUDES(mutex_);

  // Takes the job's secret out of the environment, for this start and later ones.
  void take_secret() HVD_EXCLUDES(mutex_);
  // Does nothing while a job is running. `options` need no config and no round. There is no job if
  // this thread was interrupted meanwhile.
  Status start(JobOptions options) HVD_EXCLUDES(changing_, mutex_);
  // Returns once nobody uses the job any more and nothing of it is left.
  void shutdown() HVD_EXCLUDES(changing_, mutex_);

 private:
  explicit Process(const Process* inherited);
  std::shared_ptr<Job> own(std::unique_ptr<Job> job) HVD_EXCLUDES(mutex_);
  void leave() HVD_REQUIRES(changing_) HVD_EXCLUDES(mutex_);

  const ForkGeneration fork_generation_;
  // The parent's, so that what it holds counts as reachable.
  [[maybe_unused]] const Process* const inherited_;

  InterruptibleMutex changing_;  // held while a job starts or ends
  RendezvousSetup rendezvous_ HVD_GUARDED_BY(changing_);
  // Attempts to start a job of these ranks at this rendezvous: its ranks find each other under that
  // number. Jobs of other ranks do not count, since not all ranks of this one were in them.
  std::map<std::pair<std::string, std::vector<int>>, int> rounds_ HVD_GUARDED_BY(changing_);

  // The last secret that the environment had; null if it never had one. A forked child reads its
  // parent's without a lock.
  std::atomic<const SecretText*> secret_;

  Mutex mutex_;  // held for moments only
  std::vector<std::unique_ptr<const SecretText>> secrets_ HVD_GUARDED_BY(mutex_);
  CondVar ended_;
  std::shared_ptr<Job> job_ HVD_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<hvd_operation>> aside_ HVD_GUARDED_BY(mutex_);
  // Becomes true when the last job that was made is no more: its users may keep it for longer than
  // shutdown() waits. Each job has its own, so that the end of one says nothing about the next.
  std::shared_ptr<bool> over_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
