// SPDX-License-Identifier: Apache-2.0
#include "engine/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "collectives/calibrate.h"
#include "engine/timeline/tracer.h"
#include "net/secret.h"

namespace hvd {
namespace {

constexpr std::string_view kTimelineOnDemand = "DYNAMIC";

std::chrono::milliseconds to_milliseconds(Config::Seconds seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(seconds);
}

StallTimes stall_times(const Config& config) {
  StallTimes times{config.stall_check_time.count(), config.stall_shutdown_time.count()};
  if (config.stall_check_disable) return {0, 0};
  if (times.shutdown_seconds > 0 && times.shutdown_seconds < times.warning_seconds) {
    HVD_LOG(kWarning,
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={} is ignored: it is less than "
            "HOROVOD_STALL_CHECK_TIME_SECONDS={}",
            times.shutdown_seconds, times.warning_seconds);
    times.shutdown_seconds = 0;
  }
  return times;
}

// The status that operations in flight fail with, on all ranks.
Status shut_down_by(int rank) {
  return aborted(fmt::format(
      "Horovod has been shut down: rank {} has left the job, by hvd.shutdown() or the end of its "
      "program",
      rank));
}

}  // namespace

RankAssignment assignment_of(int rank, const Topology& topology) {
  RankAssignment assignment;
  assignment.rank = rank;
  assignment.size = topology.size();
  assignment.local_rank = topology.local_rank(rank);
  assignment.local_size = static_cast<int>(topology.ranks_on(topology.host_of(rank)).size());
  assignment.cross_size = 0;
  for (int host = 0; host < topology.hosts(); ++host) {
    if (static_cast<int>(topology.ranks_on(host).size()) <= assignment.local_rank) continue;
    if (host == topology.host_of(rank)) assignment.cross_rank = assignment.cross_size;
    ++assignment.cross_size;
  }
  assignment.homogeneous = topology.smallest_host() == topology.largest_host();
  return assignment;
}

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options) {
  std::unique_ptr<Job> job(new Job(options));
  const Status joined = job->join();
  if (!joined.is_ok()) return joined;
  return job;
}

Job::~Job() {
  if (fork_generation_.in_child()) {
    // The threads exist only in the parent process, and locks that they held are never released. So
    // the child leaks the objects instead of destroying them.
    (void)rendezvous_.release();
    (void)fabric_.release();
    MutexLock lock(mutex_);
    for (auto& [id, set] : sets_)
      (void)new (std::nothrow) std::shared_ptr<Engine>(std::move(set.engine));
    (void)new (std::nothrow) std::shared_ptr<Engine>(std::move(global_engine_));
    return;
  }
  if (fabric_ != nullptr) fabric_->leave();
}

// Start ------------------------------------------------------------------------------------------

Status Job::join() {
  const Config& config = options_.config;
  const Deadline deadline = Deadline::after(config.timeout);
  HVD_TRY(connect(deadline));
  const Topology& topology = fabric_->topology();
  assignment_ = assignment_of(rank_, topology);
  if (config.was_given("HOROVOD_LOCAL_RANK") && options_.ranks.empty()) {
    assignment_.local_rank = config.local_rank;
    assignment_.local_size = config.local_size;
    assignment_.cross_rank = config.cross_rank;
    assignment_.cross_size = config.cross_size;
  }
  HVD_TRY_ASSIGN(tunables_, tunables_from(config));
  allreduce_.deterministic = config.deterministic;

  if (!config.timeline.empty() && (rank_ == 0 || config.timeline_all_ranks)) {
    timeline_ = std::make_unique<Timeline>(rank_);
    if (config.timeline != kTimelineOnDemand) {
      HVD_TRY(start_timeline(config.timeline, config.timeline_mark_cycles));
    }
  }
  std::vector<int> all_ranks(topology.size());
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  HVD_TRY_ASSIGN(global_engine_, make_engine(0, all_ranks, kGlobalSet));
  {
    MutexLock lock(mutex_);
    sets_[kGlobalSet] = {all_ranks, global_engine_};
  }
  for (size_t i = 0; i < options_.process_sets.size(); ++i) {
    MutexLock changing(changing_sets_);
    const auto made = register_set(options_.process_sets[i]);
    if (!made.is_ok()) return made.status().with_context(fmt::format("process set {}", i));
  }
  return Status::ok();
}

Status Job::connect(const Deadline& deadline) {
  const Config& config = options_.config;
  FabricOptions fabric;
  fabric.rank = config.rank;
  fabric.size = config.size;
  if (!options_.ranks.empty()) {
    const auto found = std::find(options_.ranks.begin(), options_.ranks.end(), config.rank);
    if (found == options_.ranks.end()) {
      return invalid_argument(
          fmt::format("rank {} is not among the ranks that init() was given: {}", config.rank,
                      fmt::join(options_.ranks, ", ")));
    }
    fabric.rank = static_cast<int>(found - options_.ranks.begin());
    fabric.size = static_cast<int>(options_.ranks.size());
  }
  rank_ = fabric.rank;
  fabric.host_name = config.hostname;
  fabric.round = options_.ranks.empty()
                     ? fmt::format("job-{}", options_.round)
                     : fmt::format("job-{}-{}", options_.round, fmt::join(options_.ranks, "-"));
  fabric.interfaces = config.network_interfaces;
  fabric.tls = config.tls;
  fabric.tags = config.wire_protection == Config::WireProtection::kTags;
  fabric.shared_memory = !config.shm_disable;
  fabric.heartbeat_timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(config.heartbeat_timeout);
  if (fabric.size > 1) {
    HVD_TRY_ASSIGN(secret_, Secret::from_base64(config.secret_key.text()));
    auto rendezvous = RendezvousClient::connect(config.rendezvous, secret_, config.tls, deadline);
    if (!rendezvous.is_ok()) {
      return rendezvous.status().with_context(fmt::format("rendezvous at {}", config.rendezvous));
    }
    rendezvous_ = std::move(rendezvous).value();
  }
  // Rank 0 publishes the identity before it joins the fabric, and the other ranks read the identity
  // after they have joined. So they never wait for it.
  if (rank_ == 0) HVD_TRY(agree_on_identity(fabric.round, deadline));
  HVD_TRY_ASSIGN(fabric_, Fabric::join(fabric, secret_, rendezvous_.get(), deadline));
  if (rank_ != 0) HVD_TRY(agree_on_identity(fabric.round, deadline));
  return Status::ok();
}

Status Job::agree_on_identity(const std::string& round, const Deadline& deadline) {
  constexpr size_t kIdentitySize = 16;
  const std::string key = round + "/identity";
  if (rank_ != 0) {
    HVD_TRY_ASSIGN(identity_, rendezvous_->wait(key, deadline));
    return Status::ok();
  }
  identity_.resize(kIdentitySize);
  fill_random(identity_);
  return rendezvous_ == nullptr ? Status::ok() : rendezvous_->set(key, identity_);
}

EngineOptions Job::engine_options(const std::vector<int>& ranks, int set) const {
  const Config& config = options_.config;
  EngineOptions options;
  options.worker.tunables = tunables_;
  options.worker.fusion.within_groups_only = config.disable_group_fusion;
  options.worker.fusion.fuse_adasum = !config.deterministic;
  options.worker.host_backend.allreduce = allreduce_;
  options.worker.host_backend.timeout = to_milliseconds(config.timeout);
  options.worker.host_backend.job_ranks = ranks;
  options.worker.cache_capacity = static_cast<size_t>(config.cache_capacity);
  options.worker.warns_of_small_cache = config.was_given("HOROVOD_CACHE_CAPACITY");
  if (timeline_ != nullptr) {
    options.worker.observer = std::make_shared<Tracer>(
        *timeline_, set == kGlobalSet ? std::string() : fmt::format("process set {}: ", set), ranks,
        options.worker.cache_capacity);
  }
  options.worker.host_name = config.hostname;
  options.worker.stall = stall_times(config);
  if (config.autotune && set == kGlobalSet) {
    options.worker.autotune = autotune_options(config, fabric_->topology(), shares_memory_);
    options.worker.autotune_log = config.autotune_log;
  }
  options.thread_name = set == kGlobalSet ? "hvd-engine" : fmt::format("hvd-set-{}", set);
  options.ranks_on_host = assignment_.local_size;
  if (!config.thread_affinity.empty()) {
    const auto local = static_cast<size_t>(assignment_.local_rank);
    if (local < config.thread_affinity.size()) {
      options.core = config.thread_affinity[local];
    } else {
      HVD_LOG(kError,
              "HOROVOD_THREAD_AFFINITY names {} cores, but this is local rank {}; it is not pinned",
              config.thread_affinity.size(), local);
    }
  }
  return options;
}

Result<std::shared_ptr<Engine>> Job::make_engine(uint64_t communicator,
                                                 const std::vector<int>& ranks, int set) {
  const Deadline deadline = Deadline::after(options_.config.timeout);
  HVD_TRY_ASSIGN(std::unique_ptr<Transport> transport,
                 fabric_->make_mesh(communicator, ranks, deadline));
  std::unique_ptr<ControlPlane> control;
  if (set == kGlobalSet) shares_memory_ = transport->hosts_share_memory();
  if (ranks.size() > 1) {
    HVD_TRY_ASSIGN(control, fabric_->make_control(communicator, *transport, deadline));
    if (set == kGlobalSet && transport->topology().hosts() > 1) {
      HVD_TRY_ASSIGN(allreduce_.model, calibrate(*transport, deadline));
    }
  }
  EngineOptions options = engine_options(ranks, set);
  // The key is the communicator, which is unique. The id of a set is not unique, because ids of
  // removed sets are reused.
  options.sealer = std::make_shared<const Sealer>(secret_, identity_, communicator);
  HVD_TRY_ASSIGN(auto engine, Engine::start(options, std::move(transport), std::move(control)));
  return std::shared_ptr<Engine>(std::move(engine));
}

// Process sets -----------------------------------------------------------------------------------

Result<std::shared_ptr<Engine>> Job::engine(int set) const {
  if (set == kGlobalSet) return global_engine_;
  MutexLock lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end()) {
    return invalid_argument(fmt::format("there is no process set {}", set));
  }
  if (found->second.engine == nullptr) {
    return invalid_argument(fmt::format("rank {} is not in process set {}, which has ranks {}",
                                        rank_, set, fmt::join(found->second.ranks, ", ")));
  }
  return found->second.engine;
}

std::vector<int> Job::process_sets() const {
  MutexLock lock(mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

Result<std::vector<int>> Job::ranks_of(int set) const {
  MutexLock lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end()) {
    return invalid_argument(fmt::format("there is no process set {}", set));
  }
  return found->second.ranks;
}

// Collective: ok if all ranks pass the same arguments, otherwise all ranks get an error.
Status Job::agree(RequestType type, std::string name, const std::vector<int>& what) {
  TensorTask task;
  task.request.type = type;
  task.request.name = std::move(name);
  task.request.dtype = DType::kUint8;
  task.request.shape.assign(what.begin(), what.end());
  std::vector<TensorTask> tasks;
  tasks.push_back(std::move(task));
  const Operation::Ref operation = Operation::make(std::move(tasks));
  HVD_TRY(global_engine_->submit(*operation, SubmitHint::kWillWait));
  HVD_TRY(global_engine_->wait(*operation));
  return operation->status();
}

Status Job::check_ranks(std::vector<int>& ranks) const {
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) return invalid_argument("a process set needs at least one rank");
  if (ranks.front() < 0 || ranks.back() >= assignment_.size) {
    return invalid_argument(fmt::format("ranks {} of a process set: they are from 0 to {}",
                                        fmt::join(ranks, ", "), assignment_.size - 1));
  }
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) {
    return invalid_argument(
        fmt::format("ranks {} of a process set: one occurs twice", fmt::join(ranks, ", ")));
  }
  return Status::ok();
}

Result<int> Job::add_process_set(std::vector<int> ranks) {
  if (!options_.config.dynamic_process_sets) {
    return precondition(
        "process sets can be added after init() only with "
        "HOROVOD_DYNAMIC_PROCESS_SETS=1");
  }
  MutexLock changing(changing_sets_);
  return register_set(std::move(ranks));
}

Result<int> Job::register_set(std::vector<int> ranks) {
  HVD_TRY(check_ranks(ranks));
  HVD_TRY(agree(RequestType::kAddProcessSet, "process_set.add", ranks));
  // All ranks have agreed on `ranks`, so all of them take the same branches below.
  const uint64_t communicator = next_communicator_++;
  int id = 0;
  {
    MutexLock lock(mutex_);
    for (const auto& [other, set] : sets_) {
      if (set.ranks == ranks) {
        return already_exists(fmt::format("a process set of ranks {} exists already: {}",
                                          fmt::join(ranks, ", "), other));
      }
    }
    while (sets_.count(id) > 0) ++id;
  }
  ProcessSet set{ranks, nullptr};
  if (std::binary_search(ranks.begin(), ranks.end(), rank_)) {
    HVD_TRY_ASSIGN(set.engine, make_engine(communicator, ranks, id));
  }
  MutexLock lock(mutex_);
  sets_.emplace(id, std::move(set));
  return id;
}

Result<bool> Job::remove_process_set(int set) {
  if (!options_.config.dynamic_process_sets) {
    return precondition("process sets can be removed only with HOROVOD_DYNAMIC_PROCESS_SETS=1");
  }
  MutexLock changing(changing_sets_);
  {
    MutexLock lock(mutex_);
    if (set == kGlobalSet || sets_.count(set) == 0) return false;
  }
  HVD_TRY(agree(RequestType::kRemoveProcessSet, "process_set.remove", {set}));
  ProcessSet removed;
  {
    MutexLock lock(mutex_);
    removed = std::move(sets_.at(set));
    sets_.erase(set);
  }
  if (removed.engine != nullptr) {
    removed.engine->shutdown(aborted(fmt::format("process set {} was removed", set)),
                             Deadline::after(options_.config.timeout));
  }
  return true;
}

// Timeline ---------------------------------------------------------------------------------------

Status Job::start_timeline(const std::string& path, bool mark_cycles) {
  if (options_.config.timeline.empty()) {
    return precondition(
        "a timeline can be started at run time only if HOROVOD_TIMELINE was set at "
        "init; HOROVOD_TIMELINE=DYNAMIC begins without one");
  }
  if (timeline_ == nullptr) return Status::ok();
  return timeline_->start(
      options_.config.timeline_all_ranks ? Timeline::path_for_rank(path, rank_) : path,
      mark_cycles);
}

Status Job::stop_timeline() { return timeline_ == nullptr ? Status::ok() : timeline_->stop(); }

// End --------------------------------------------------------------------------------------------

Status Job::ended() const { return global_engine_->ended(); }

void Job::shutdown() {
  const Deadline deadline = Deadline::after(options_.config.timeout);
  std::vector<std::shared_ptr<Engine>> engines;
  {
    MutexLock lock(mutex_);
    for (auto& [id, set] : sets_) {
      if (id != kGlobalSet && set.engine != nullptr) engines.push_back(set.engine);
    }
  }
  // If the engine of a process set has ended already, this rank is not the cause of the end. So
  // operations fail with the reason of that earlier end.
  Status why = global_engine_->ended();
  for (const auto& engine : engines) {
    if (why.is_ok()) why = engine->ended();
  }
  if (why.is_ok()) why = shut_down_by(rank_);
  for (const auto& engine : engines) engine->shutdown(why, deadline);
  global_engine_->shutdown(why, deadline);
}

}  // namespace hvd
