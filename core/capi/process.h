// The one job that a process has, if any. It is never destroyed: at exit other threads may still be
// at work, and a destructor that waits for one of them would hang the exit.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_mark.h"
#include "base/mutex.h"
#include "base/status.h"
#include "capi/meeting.h"
#include "capi/operation.h"
#include "engine/job.h"

namespace hvd {

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

  // Does nothing while a job is running. `options` need no config and no round.
  Status start(JobOptions options) HVD_EXCLUDES(changing_, mutex_);
  // Returns once nobody uses the job any more and nothing of it is left.
  void shutdown() HVD_EXCLUDES(changing_, mutex_);

 private:
  explicit Process(const Process* inherited);
  std::shared_ptr<Job> own(std::unique_ptr<Job> job) HVD_EXCLUDES(mutex_);
  void leave() HVD_REQUIRES(changing_) HVD_EXCLUDES(mutex_);

  const ForkMark mark_;
  // The parent's, so that what it holds counts as reachable.
  [[maybe_unused]] const Process* const inherited_;

  Mutex changing_;  // held while a job starts or ends
  Meeting meeting_ HVD_GUARDED_BY(changing_);
  // Attempts to start a job, by rendezvous: its ranks find each other under that number.
  std::map<std::string, int> rounds_ HVD_GUARDED_BY(changing_);

  Mutex mutex_;  // held for moments only
  CondVar ended_;
  std::shared_ptr<Job> job_ HVD_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<hvd_operation>> aside_ HVD_GUARDED_BY(mutex_);
  bool alive_ HVD_GUARDED_BY(mutex_) = false;  // a job exists, perhaps in the hands of its users
};

}  // namespace hvd
