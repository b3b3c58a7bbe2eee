// SPDX-License-Identifier: Apache-2.0
// The state of the library in this process: its job, if there is one. Never destroyed: at exit
// other threads may still run, and a destructor that waits for one of them would block the exit.
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

// A mutex whose lock() can be interrupted, because its owner may hold it for seconds (the start of
// a job).
class HVD_CAPABILITY("mutex") InterruptibleMutex {
 public:
  // False if this thread was interrupted (base/interrupt.h); the mutex is not held then.
  [[nodiscard]] bool lock() HVD_TRY_ACQUIRE(true) {
    MutexLock lock(mutex_);
    while (taken_) {
      if (!free_.wait(mutex_, Deadline::never())) return false;
    }
    return taken_ = true;
  }
  void unlock() HVD_RELEASE() {
    MutexLock lock(mutex_);
    taken_ = false;
    free_.notify_all();  // wakes all threads, because a single one may have been interrupted
  }

  // Unlocks a mutex that the caller has locked.
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

// Any thread may call the public functions.
class Process {
 public:
  // A forked child gets its own Process, without a job. The child does not use its copy of the
  // parent's Process: a thread of the parent, which the child does not have, may hold the locks of
  // that copy.
  static Process& current();

  // Null if there is no job. The returned pointer keeps the object alive, also after the job has
  // ended.
  std::shared_ptr<Job> job() HVD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return job_;
  }

  // The job (null if there is none) and an operation object for a submission. One lock protects
  // both reads.
  struct Submission {
    std::shared_ptr<Job> job;
    std::unique_ptr<hvd_operation> operation;
  };
  Submission begin_submission() HVD_EXCLUDES(mutex_);
  // Keeps a released operation for a later submission.
  void put_aside(std::unique_ptr<hvd_operation> operation) HVD_EXCLUDES(mutex_);

  // Moves the job's secret from the environment to this object, for this start and later ones.
  void take_secret() HVD_EXCLUDES(mutex_);
  // Starts a job. Does nothing while a job is running. Fills in config and round of `options`. If
  // this thread is interrupted meanwhile, the call fails and there is no job.
  Status start(JobOptions options) HVD_EXCLUDES(changing_, mutex_);
  // Returns when no thread uses the job any more and the job is destroyed.
  void shutdown() HVD_EXCLUDES(changing_, mutex_);

 private:
  explicit Process(const Process* inherited);
  std::shared_ptr<Job> own(std::unique_ptr<Job> job) HVD_EXCLUDES(mutex_);
  void leave() HVD_REQUIRES(changing_) HVD_EXCLUDES(mutex_);

  const ForkGeneration fork_generation_;
  // The parent's Process, so that leak checkers count its memory as reachable.
  [[maybe_unused]] const Process* const inherited_;

  InterruptibleMutex changing_;  // held while a job starts or ends
  RendezvousSetup rendezvous_ HVD_GUARDED_BY(changing_);
  // The round: how often this process has started a job with this rendezvous and these ranks. The
  // ranks of a job find each other by this number. Starts of jobs with other ranks are not counted,
  // because not all ranks of this job took part in them.
  std::map<std::pair<std::string, std::vector<int>>, int> rounds_ HVD_GUARDED_BY(changing_);

  // The last secret that was in the environment; null if there was none. Atomic, because a forked
  // child reads its parent's without a lock.
  std::atomic<const SecretText*> secret_;

  Mutex mutex_;  // held briefly only
  std::vector<std::unique_ptr<const SecretText>> secrets_ HVD_GUARDED_BY(mutex_);
  CondVar ended_;
  std::shared_ptr<Job> job_ HVD_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<hvd_operation>> aside_ HVD_GUARDED_BY(mutex_);
  // Becomes true when the latest job is destroyed. Threads that use the job may keep it alive after
  // shutdown() has released it. Each job has its own flag, so that the end of one job is not taken
  // for the end of the next job.
  std::shared_ptr<bool> over_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
