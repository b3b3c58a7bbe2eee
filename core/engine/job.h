// SPDX-License-Identifier: Apache-2.0
// One process's membership in a job: who the others are, and an engine for every process set it
// belongs to. init() makes one, shutdown() ends it; a process may do so any number of times.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/fork_generation.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/timeline/timeline.h"
#include "net/rendezvous.h"
#include "net/secret.h"
#include "transport/fabric.h"

namespace hvd {

struct JobOptions {
  Config config;  // with a rendezvous and a secret if there are several ranks
  // The ranks that take part, of those that were started; empty: all. They are numbered anew, in
  // this order.
  std::vector<int> ranks;
  // Made at the start, with ids 1, 2, …; the same on all ranks.
  std::vector<std::vector<int>> process_sets;
  // Which of this process's jobs it is: its ranks find each other under this number.
  int round = 0;
};

// Where a rank stands among those of a process set.
struct RankAssignment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  // among the hosts that have a rank with this local rank
  int cross_size = 1;
  bool homogeneous = true;  // every host has as many ranks
};
// From the hosts of all ranks.
RankAssignment assignment_of(int rank, const Topology& topology);

class Job {
 public:
  static constexpr int kGlobalSet = 0;

  // Collective. Fails as a value, whatever goes wrong; nothing is left then.
  static Result<std::unique_ptr<Job>> start(const JobOptions& options);
  ~Job();

  // In the whole job; as the launcher says, or else as the ranks have found out.
  const RankAssignment& assignment() const { return assignment_; }
  const Config& config() const { return options_.config; }

  // The engine of a process set. kInvalidArgument if there is no such set, or this rank is not in
  // it. It stays valid while it is held, though it may end meanwhile.
  Result<std::shared_ptr<Engine>> engine(int set) const HVD_EXCLUDES(mutex_);

  // Collective over all ranks of the job, in the same order; waits for all of them.
  // kInvalidArgument names ranks that are out of range or twice; kAlreadyExists a set of the same
  // ranks; kPrecondition if ranks disagree, or HOROVOD_DYNAMIC_PROCESS_SETS is not set.
  Result<int> add_process_set(std::vector<int> ranks) HVD_EXCLUDES(mutex_);
  // False if there is no such set, or it is the global one.
  Result<bool> remove_process_set(int set) HVD_EXCLUDES(mutex_);

  std::vector<int> process_sets() const HVD_EXCLUDES(mutex_);
  // Ascending.
  Result<std::vector<int>> ranks_of(int set) const HVD_EXCLUDES(mutex_);

  // kPrecondition unless HOROVOD_TIMELINE was set when the job started. Each rank may call it;
  // where only rank 0 writes, the others do nothing.
  Status start_timeline(const std::string& path, bool mark_cycles);
  // Returns when the file is complete.
  Status stop_timeline();

  // Ends the job on all ranks: what is in flight fails. Returns once the others know.
  void shutdown();
  // Ok, or why nothing can be submitted any more.
  Status ended() const;

 private:
  struct ProcessSet {
    std::vector<int> ranks;
    std::shared_ptr<Engine> engine;  // null if this rank is not in it
  };

  explicit Job(const JobOptions& options) : options_(options) {}
  Status join();
  Status connect(const Deadline& deadline);
  Status agree_on_identity(const std::string& round, const Deadline& deadline);
  // The engine for these ranks, this one among them.
  Result<std::shared_ptr<Engine>> make_engine(uint64_t communicator, const std::vector<int>& ranks,
                                              int set);
  EngineOptions engine_options(const std::vector<int>& ranks, int set) const;
  Status agree(RequestType type, std::string name, const std::vector<int>& what);
  Result<int> register_set(std::vector<int> ranks) HVD_REQUIRES(changing_sets_)
      HVD_EXCLUDES(mutex_);
  Status check_ranks(std::vector<int>& ranks) const HVD_EXCLUDES(mutex_);

  // Constant once started. The order matters: engines end before all that they use.
  JobOptions options_;
  int rank_ = 0;
  // What seals are made with: the job's secret, and random bytes that no other job has, also none
  // that was given the same secret.
  Secret secret_ = Secret::generate();
  ByteBuffer identity_;
  RankAssignment assignment_;
  Tunables tunables_;
  AllreduceOptions allreduce_;
  bool shares_memory_ = false;
  std::unique_ptr<RendezvousClient> rendezvous_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Timeline> timeline_;  // if this rank writes one, or may be asked to
  std::shared_ptr<Engine> global_engine_;
  const ForkGeneration fork_generation_;

  Mutex changing_sets_;  // held while sets are added or removed, by one thread at a time
  uint64_t next_communicator_ HVD_GUARDED_BY(changing_sets_) = 1;
  mutable Mutex mutex_;
  std::map<int, ProcessSet> sets_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
