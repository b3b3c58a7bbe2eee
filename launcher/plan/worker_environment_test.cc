// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/worker_environment.h"

#include <set>

#include "launcher/plan/command_line.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

// The variables that these flags add to an environment.
Environment written_by(std::vector<std::string> arguments) {
  const auto line = parse_command_line(arguments);
  EXPECT_OK(line);
  Environment environment;
  add_flag_variables(line->options, environment);
  EXPECT_EQ(environment["PYTHONUNBUFFERED"], "1");
  environment.erase("PYTHONUNBUFFERED");
  return environment;
}

TEST(WorkerEnvironment, EachFlagWritesItsVariable) {
  const std::vector<std::pair<std::vector<std::string>, Environment>> cases = {
      {{}, {}},
      {{"--fusion-threshold-mb", "64"}, {{"HOROVOD_FUSION_THRESHOLD", "67108864"}}},
      {{"--fusion-threshold-mb", "4096"}, {{"HOROVOD_FUSION_THRESHOLD", "4294967296"}}},
      {{"--cycle-time-ms", "3.5"}, {{"HOROVOD_CYCLE_TIME", "3.5"}}},
      {{"--cache-capacity", "0"}, {{"HOROVOD_CACHE_CAPACITY", "0"}}},
      {{"--hierarchical-allreduce"}, {{"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"}}},
      {{"--no-hierarchical-allgather"}, {{"HOROVOD_HIERARCHICAL_ALLGATHER", "0"}}},
      {{"--torus-allreduce"}, {{"HOROVOD_TORUS_ALLREDUCE", "1"}}},
      {{"--no-stall-check"}, {{"HOROVOD_STALL_CHECK_DISABLE", "1"}}},
      {{"--stall-check"}, {{"HOROVOD_STALL_CHECK_DISABLE", "0"}}},
      {{"--stall-check-warning-time-seconds", "10", "--stall-check-shutdown-time-seconds=20"},
       {{"HOROVOD_STALL_CHECK_TIME_SECONDS", "10"}, {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "20"}}},
      {{"--mpi-threads-disable"}, {{"HOROVOD_MPI_THREADS_DISABLE", "1"}}},
      {{"--tcp"}, {{"NCCL_IB_DISABLE", "1"}}},
      {{"--num-nccl-streams", "2"}, {{"HOROVOD_NUM_NCCL_STREAMS", "2"}}},
      {{"--thread-affinity", "0,4"}, {{"HOROVOD_THREAD_AFFINITY", "0,4"}}},
      {{"--gloo-timeout-seconds", "60"}, {{"HOROVOD_GLOO_TIMEOUT_SECONDS", "60"}}},
      {{"--log-level", "DEBUG"}, {{"HOROVOD_LOG_LEVEL", "DEBUG"}}},
      {{"--log-without-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "1"}}},
      {{"--log-with-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "0"}}},
  };
  for (const auto& [arguments, expected] : cases) EXPECT_EQ(written_by(arguments), expected);
}

TEST(WorkerEnvironment, DetailsOfAutotuneAreWrittenOnlyWhenItIsOn) {
  const std::vector<std::string> details = {
      "--autotune-log-file=l", "--autotune-warmup-samples=1", "--autotune-steps-per-sample=2",
      "--autotune-bayes-opt-max-samples=3", "--autotune-gaussian-process-noise=0.4"};
  EXPECT_EQ(written_by(details), Environment());
  std::vector<std::string> with_switch = details;
  with_switch.emplace_back("--no-autotune");
  EXPECT_EQ(written_by(with_switch), (Environment{{"HOROVOD_AUTOTUNE", "0"}}));
  with_switch.back() = "--autotune";
  EXPECT_EQ(written_by(with_switch),
            (Environment{{"HOROVOD_AUTOTUNE", "1"},
                         {"HOROVOD_AUTOTUNE_LOG", "l"},
                         {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
                         {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2"},
                         {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "3"},
                         {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.4"}}));
}

TEST(WorkerEnvironment, CyclesAreMarkedOnlyInATimeline) {
  EXPECT_EQ(written_by({"--timeline-mark-cycles"}), Environment());
  EXPECT_EQ(written_by({"--timeline-mark-cycles", "--timeline-filename=t"}),
            (Environment{{"HOROVOD_TIMELINE", "t"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "1"}}));
}

TEST(WorkerEnvironment, WhatBelongsToThisHostOrToAnotherJobIsNotExported) {
  const Environment own = {{"PATH", "/bin"},
                           {"HOROVOD_CYCLE_TIME", "2"},
                           {"BASH_FUNC_module%%", "() { :; }"},
                           {"OLDPWD", "/"},
                           {"CUDA_VISIBLE_DEVICES", "0"},
                           {"NVIDIA_CUDA_VISIBLE_DEVICES", "0"},
                           {"_HOROVOD_SECRET_KEY", "hush"},
                           {"HOROVOD_RANK", "3"},
                           {"HOROVOD_HOSTNAME", "h"},
                           {"HOROVOD_RENDEZVOUS", "h:1"},
                           {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "h"},
                           {"HOROVOD_ELASTIC", "1"}};
  EXPECT_EQ(exported_environment(own),
            (Environment{{"PATH", "/bin"}, {"HOROVOD_CYCLE_TIME", "2"}}));
  EXPECT_EQ(without_slot_variables(own).size(), 6U);
}

TEST(WorkerEnvironment, SlotVariablesAreComplete) {
  const Slot slot{.host = "b",
                  .rank = 5,
                  .size = 8,
                  .local_rank = 1,
                  .local_size = 4,
                  .cross_rank = 2,
                  .cross_size = 3};
  EXPECT_EQ(slot_environment(slot), (Environment{{"HOROVOD_RANK", "5"},
                                                 {"HOROVOD_SIZE", "8"},
                                                 {"HOROVOD_LOCAL_RANK", "1"},
                                                 {"HOROVOD_LOCAL_SIZE", "4"},
                                                 {"HOROVOD_CROSS_RANK", "2"},
                                                 {"HOROVOD_CROSS_SIZE", "3"},
                                                 {"HOROVOD_HOSTNAME", "b"}}));
}

}  // namespace
}  // namespace hvd::launcher
