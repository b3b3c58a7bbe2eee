// SPDX-License-Identifier: Apache-2.0
// The membership of one process in a job: its connections to the other ranks, and one engine for
// each process set that it belongs to. hvd_init makes a Job and hvd_shutdown ends it. A process may
// do this any number of times.
//
// All functions may be called from any thread. Functions marked "collective" wait for other ranks.
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
  // The processes that take part, by the rank with which they were started; empty: all. The rank of
  // a process in this job is its index in this list.
  std::vector<int> ranks;
  // Process sets to make at the start, with ids 1, 2, …; the same on all ranks.
  std::vector<std::vector<int>> process_sets;
  // The round: 0 for the first job of this process with this rendezvous server and these ranks,
  // then 1, 2, … It is part of the key under which the ranks meet at the rendezvous server.
  int round = 0;
};

// The rank assignment of one rank within a job.
struct RankAssignment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  // index of its host among the hosts that have a rank with this local rank
  int cross_size = 1;
  bool homogeneous = true;  // all hosts have the same number of ranks
};
// Computes it from the hosts of all ranks.
RankAssignment assignment_of(int rank, const Topology& topology);

class Job {
 public:
  static constexpr int kGlobalSet = 0;

  // Collective. Throws nothing; after a failure nothing of the job remains.
  static Result<std::unique_ptr<Job>> start(const JobOptions& options);
  ~Job();

  // The rank assignment in the whole job: the one that the launcher has set, or else one that is
  // computed from the hosts of all ranks.
  const RankAssignment& assignment() const { return assignment_; }
  const Config& config() const { return options_.config; }

  // The engine of a process set. kInvalidArgument if there is no such set, or this rank is not in
  // it. The pointer keeps the engine alive, but the engine may end.
  Result<std::shared_ptr<Engine>> engine(int set) const HVD_EXCLUDES(mutex_);

  // Collective: all ranks of the job call it, in the same order.
  // kInvalidArgument if a rank is out of range or occurs twice; kAlreadyExists if there is a set of
  // the same ranks; kPrecondition if ranks disagree, or if HOROVOD_DYNAMIC_PROCESS_SETS is not set.
  Result<int> add_process_set(std::vector<int> ranks) HVD_EXCLUDES(mutex_);
  // Collective, as above. False if there is no such set, or it is the global one.
  Result<bool> remove_process_set(int set) HVD_EXCLUDES(mutex_);

  std::vector<int> process_sets() const HVD_EXCLUDES(mutex_);
  // Ascending.
  Result<std::vector<int>> ranks_of(int set) const HVD_EXCLUDES(mutex_);

  // kPrecondition unless HOROVOD_TIMELINE was set when the job started. Each rank may call it; if
  // only rank 0 writes a timeline, the call does nothing on other ranks.
  Status start_timeline(const std::string& path, bool mark_cycles);
  // Returns when the file is complete.
  Status stop_timeline();

  // Ends the job on all ranks: operations in flight fail. Returns once the children in the tree of
  // each process set have sent their goodbyes, or after the timeout of the job.
  void shutdown();
  // Ok, or the reason why the global process set has ended.
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
  // The engine of a new set of `ranks`, which contain this one. Collective over these ranks.
  Result<std::shared_ptr<Engine>> make_engine(uint64_t communicator, const std::vector<int>& ranks,
                                              int set);
  EngineOptions engine_options(const std::vector<int>& ranks, int set) const;
  Status agree(RequestType type, std::string name, const std::vector<int>& what);
  Result<int> register_set(std::vector<int> ranks) HVD_REQUIRES(changing_sets_)
      HVD_EXCLUDES(mutex_);
  Status check_ranks(std::vector<int>& ranks) const HVD_EXCLUDES(mutex_);

  // Constant once started. The order matters: engines are destroyed before the objects they use.
  JobOptions options_;
  int rank_ = 0;
  // The key material of seals: the secret of the job, and random bytes that differ between jobs
  // with the same secret.
  Secret secret_ = Secret::generate();
  ByteBuffer identity_;
  RankAssignment assignment_;
  Tunables tunables_;
  AllreduceOptions allreduce_;
  bool shares_memory_ = false;
  std::unique_ptr<RendezvousClient> rendezvous_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Timeline> timeline_;  // null if this rank never writes one
  std::shared_ptr<Engine> global_engine_;
  const ForkGeneration fork_generation_;

  // changing_sets_ is held while all ranks add or remove a set; mutex_ is held only to read or
  // write sets_. Lock order: changing_sets_, then mutex_.
  Mutex changing_sets_;
  uint64_t next_communicator_ HVD_GUARDED_BY(changing_sets_) = 1;
  mutable Mutex mutex_;
  std::map<int, ProcessSet> sets_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
