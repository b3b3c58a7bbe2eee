// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "launcher/plan/flags.h"
#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// Checks of texts --------------------------------------------------------------------------------

constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warning", "error", "fatal"};

bool is_level(std::string_view text) {
  return std::find(std::begin(kLevels), std::end(kLevels), lower_case(text)) != std::end(kLevels);
}

bool is_core_list(std::string_view text) {
  const auto parts = split(text, ',');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    const auto number = parse_integer(trimmed(part));
    return number && *number >= 0;
  });
}

bool is_not_empty(std::string_view text) { return !trimmed(text).empty(); }

// Words that the rows below are made of ----------------------------------------------------------

constexpr char kGeneral[] = "General";
constexpr char kHosts[] = "Processes and hosts";
constexpr char kOutput[] = "Output";
constexpr char kElastic[] = "Elastic jobs";
constexpr char kController[] = "Who starts the ranks";
constexpr char kTuning[] = "Tuning";
constexpr char kAutotune[] = "Autotune";
constexpr char kTimeline[] = "Timeline";
constexpr char kStalls[] = "Stall check";
constexpr char kLibraries[] = "Libraries";
constexpr char kLog[] = "Log of the ranks";

constexpr int kMaxMegabytes = 1 << 30;  // 2^50 bytes
constexpr int kMaxProcesses = 1 << 20;
constexpr int kMaxSeconds = 10 * 365 * 86400;

constexpr FlagValue kNoValue;

constexpr FlagValue value(std::string_view name, double least = 0,
                          double most = std::numeric_limits<int>::max()) {
  return {name, least, most};
}

constexpr FlagValue text(std::string_view name, bool (*accepts)(std::string_view),
                         std::string_view accepted) {
  FlagValue result{name};
  result.accepts = accepts;
  result.accepted = accepted;
  return result;
}

constexpr FlagValue kFile = text("FILE", is_not_empty, "a path");
constexpr FlagValue kDirectory = text("DIR", is_not_empty, "a path");
constexpr FlagValue kProgram = text("PROGRAM", is_not_empty, "a path");
constexpr FlagValue kInterfaces = text("NAMES", nullptr, "comma-separated names of interfaces");
constexpr FlagValue kInterface = text("NAME", nullptr, "the name of an interface");
constexpr FlagValue kCores =
    text("CORES", is_core_list, "comma-separated numbers of cores, one per local rank");
constexpr FlagValue kLevel = text("LEVEL", is_level, "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL");

constexpr FlagExtras variable(std::string_view name) {
  FlagExtras extras;
  extras.variable = name;
  return extras;
}

constexpr FlagExtras setting(std::string_view config_key, std::string_view name) {
  FlagExtras extras = variable(name);
  extras.config_key = config_key;
  return extras;
}

constexpr FlagExtras in_mebibytes(FlagExtras extras) {
  extras.factor = 1 << 20;
  return extras;
}

constexpr FlagExtras inverted(FlagExtras extras) {
  extras.config_inverted = true;
  return extras;
}

constexpr FlagExtras needing(std::string_view flag, FlagExtras extras) {
  extras.needs = flag;
  return extras;
}

constexpr FlagExtras turned_off_by(std::string_view names, FlagExtras extras) {
  extras.off = names;
  return extras;
}

constexpr FlagExtras also_known(std::string_view on, std::string_view off, FlagExtras extras) {
  extras.hidden_names = on;
  extras.hidden_off_names = off;
  return extras;
}

constexpr FlagExtras in_group(ExclusiveGroup group, FlagExtras extras = {}) {
  extras.exclusive = group;
  return extras;
}

// The table --------------------------------------------------------------------------------------

using O = Options;
using E = ExclusiveGroup;

constexpr Flag kFlags[] = {
    {kGeneral, "-h, --help", &O::help, "Shows this page."},
    {kGeneral, "-v, --version", &O::version, "Shows the version."},
    {kGeneral, "-cb, --check-build", &O::check_build,
     "Shows which frameworks, controllers and operations are there."},
    {kGeneral, "--doctor", &O::doctor,
     "Looks at this machine and the hosts and says what stands in the way of a job. Starts none."},
    {kGeneral, "--verbose", &O::verbose, "Says what is being done."},
    {kGeneral, "--config-file", &O::config_file,
     "Takes flags from this YAML file. Those of the command line win.", kFile},

    {kHosts, "-np, --num-proc", &O::num_proc,
     "How many processes to start. A scheduler's allocation is the default.",
     value("N", 1, kMaxProcesses)},
    {kHosts, "-H, --hosts", &O::hosts,
     "Hosts and how many processes each of them takes, as in h1:4,h2:4. The default is this host, "
     "or what the scheduler has allocated.",
     value("HOSTS"), in_group(E::kHosts)},
    {kHosts, "-hostfile, --hostfile", &O::hostfile,
     "The same in a file, with a line \"name slots=4\" per host.", kFile, in_group(E::kHosts)},
    {kHosts, "--network-interfaces", &O::interfaces,
     "Use these network interfaces only. Can be given more than once.", kInterfaces},
    {kHosts, "--network-interface", &O::interfaces, "The same for a single one.", kInterface},
    {kHosts, "--start-timeout", &O::start_timeout,
     "Give up when not all ranks have been started after this many seconds. The default is "
     "HOROVOD_START_TIMEOUT, or 30.",
     value("SECONDS", 1, kMaxSeconds)},
    {kHosts, "-p, --ssh-port", &O::ssh_port, "Port of ssh on the other hosts.",
     value("PORT", 1, 65535)},
    {kHosts, "-i, --ssh-identity-file", &O::ssh_identity_file, "Private key for ssh.", kFile},
    {kHosts, "--ssh-args", &O::ssh_args,
     "More arguments for ssh, before the host, as in --ssh-args=\"-o StrictHostKeyChecking=no\". "
     "Without them your own ssh configuration decides.",
     value("ARGUMENTS")},
    {kHosts, "--disable-cache", &O::disable_cache,
     "Known from older versions and accepted: hosts are looked at anew each time."},

    {kOutput, "--output-filename", &O::output_filename,
     "Also write what ranks say to files DIR/rank.N/stdout and stderr.", kDirectory},
    {kOutput, "-prefix-timestamp, --prefix-output-with-timestamp", &O::prefix_timestamp,
     "Put the time before each line that a rank writes.", kNoValue, in_group(E::kTimestamps)},

    {kElastic, "--min-np, --min-num-proc", &O::min_num_proc,
     "The job goes on with at least this many processes. Makes it elastic. The default is -np.",
     value("N", 1, kMaxProcesses)},
    {kElastic, "--max-np, --max-num-proc", &O::max_num_proc,
     "The job grows to this many processes. The default is all slots.",
     value("N", 1, kMaxProcesses)},
    {kElastic, "--host-discovery-script", &O::discovery_script,
     "A program that prints the hosts there are, one \"name\" or \"name:slots\" a line. Makes the "
     "job elastic.",
     kProgram, in_group(E::kHosts)},
    {kElastic, "--slots-per-host", &O::slots_per_host,
     "Processes on each host that the program prints without slots.", value("N", 1)},
    {kElastic, "--elastic-timeout", &O::elastic_timeout,
     "Give up when there are not enough slots for this many seconds. The default is "
     "HOROVOD_ELASTIC_TIMEOUT, or 600.",
     value("SECONDS", 1, kMaxSeconds)},
    {kElastic, "--reset-limit", &O::reset_limit,
     "Give up after this many new starts. The default is never.", value("N", 0)},
    {kElastic, "--blacklist-cooldown-range", &O::cooldown_range,
     "A host that has failed may come back after a time between these two. The default is never.",
     value("SECONDS SECONDS", 1, 3600)},

    {kController, "--gloo", &O::use_gloo, "horovodrun itself. The default.", kNoValue,
     in_group(E::kController)},
    {kController, "--mpi", &O::use_mpi, "mpirun.", kNoValue, in_group(E::kController)},
    {kController, "--jsrun", &O::use_jsrun, "jsrun, on LSF clusters; the default there.", kNoValue,
     in_group(E::kController)},
    {kController, "--mpi-args", &O::mpi_args,
     "More arguments for mpirun, or for MPI under jsrun, as in --mpi-args=\"-x NCCL_DEBUG\".",
     value("ARGUMENTS")},
    {kController, "--binding-args", &O::binding_args,
     "How mpirun or jsrun binds ranks to cores, in their own words.", value("ARGUMENTS")},
    {kController, "--tcp", &O::tcp, "MPI and NCCL talk by TCP, not by InfiniBand.", kNoValue,
     variable("NCCL_IB_DISABLE")},

    {kTuning, "--fusion-threshold-mb", &O::fusion_threshold_mb,
     "Small tensors are fused into batches of up to this many MiB.", value("N", 0, kMaxMegabytes),
     in_mebibytes(setting("params.fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD"))},
    {kTuning, "--cycle-time-ms", &O::cycle_time_ms,
     "Longest time in milliseconds that a tensor waits for others to be fused with.", value("TIME"),
     setting("params.cycle_time_ms", "HOROVOD_CYCLE_TIME")},
    {kTuning, "--cache-capacity", &O::cache_capacity,
     "Tensors per process set whose negotiation is remembered.", value("N", 0),
     setting("params.cache_capacity", "HOROVOD_CACHE_CAPACITY")},
    {kTuning, "--hierarchical-allreduce", &O::hierarchical_allreduce,
     "Always reduce within each host first.", kNoValue,
     turned_off_by("--no-hierarchical-allreduce",
                   setting("params.hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE"))},
    {kTuning, "--hierarchical-allgather", &O::hierarchical_allgather,
     "Always gather within each host first.", kNoValue,
     turned_off_by("--no-hierarchical-allgather",
                   setting("params.hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER"))},
    {kTuning, "--torus-allreduce", &O::torus_allreduce,
     "For tensors on GPUs: reduce within each host and between hosts by NCCL.", kNoValue,
     turned_off_by("--no-torus-allreduce",
                   setting("params.torus_allreduce", "HOROVOD_TORUS_ALLREDUCE"))},

    {kAutotune, "--autotune", &O::autotune, "Finds good values for what is not set above.",
     kNoValue, turned_off_by("--no-autotune", setting("autotune.enabled", "HOROVOD_AUTOTUNE"))},
    {kAutotune, "--autotune-log-file", &O::autotune_log_file,
     "Rank 0 writes what was tried to this file, as CSV.", kFile,
     needing("--autotune", setting("autotune.log_file", "HOROVOD_AUTOTUNE_LOG"))},
    {kAutotune, "--autotune-warmup-samples", &O::autotune_warmup_samples,
     "Samples thrown away at the start.", value("N", 0),
     needing("--autotune", setting("autotune.warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"))},
    {kAutotune, "--autotune-steps-per-sample", &O::autotune_steps_per_sample,
     "Steps per measurement.", value("N", 1),
     needing("--autotune",
             setting("autotune.steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"))},
    {kAutotune, "--autotune-bayes-opt-max-samples", &O::autotune_bayes_opt_max_samples,
     "Samples after which the best values so far are kept.", value("N", 1),
     needing("--autotune",
             setting("autotune.bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"))},
    {kAutotune, "--autotune-gaussian-process-noise", &O::autotune_gaussian_process_noise,
     "How noisy samples are taken to be.", value("NOISE", 0, 1),
     needing("--autotune", setting("autotune.gaussian_process_noise",
                                   "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"))},

    {kTimeline, "--timeline-filename", &O::timeline_filename,
     "Rank 0 writes a timeline to this file.", kFile,
     setting("timeline.filename", "HOROVOD_TIMELINE")},
    {kTimeline, "--timeline-mark-cycles", &O::timeline_mark_cycles,
     "Marks the engine's rounds in it.", kNoValue,
     needing("--timeline-filename",
             turned_off_by("--no-timeline-mark-cycles",
                           setting("timeline.mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES")))},

    {kStalls, "--no-stall-check", &O::no_stall_check,
     "No warnings about tensors that some ranks have not submitted.", kNoValue,
     turned_off_by("--stall-check",
                   inverted(setting("stall_check.enabled", "HOROVOD_STALL_CHECK_DISABLE")))},
    {kStalls, "--stall-check-warning-time-seconds", &O::stall_check_warning_time,
     "A tensor that waits longer for some ranks is reported.", value("SECONDS", 1, kMaxSeconds),
     setting("stall_check.warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS")},
    {kStalls, "--stall-check-shutdown-time-seconds", &O::stall_check_shutdown_time,
     "A tensor that waits longer ends the job; 0 never does.", value("SECONDS", 0, kMaxSeconds),
     setting("stall_check.shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")},

    {kLibraries, "--mpi-threads-disable", &O::mpi_threads_disable,
     "Known from older versions and accepted: tensors do not travel by MPI.", kNoValue,
     turned_off_by("--no-mpi-threads-disable",
                   setting("library_options.mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE"))},
    {kLibraries, "--num-nccl-streams", &O::num_nccl_streams, "Streams of NCCL.", value("N", 1),
     setting("library_options.num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS")},
    {kLibraries, "--thread-affinity", &O::thread_affinity,
     "Pins the engine's thread of each local rank to a core.", kCores,
     setting("library_options.thread_affinity", "HOROVOD_THREAD_AFFINITY")},
    {kLibraries, "--gloo-timeout-seconds", &O::gloo_timeout,
     "How long ranks wait for each other at the start, and within one operation for a rank that "
     "neither moves nor dies.",
     value("SECONDS", 1, kMaxSeconds),
     setting("library_options.gloo_timeout_seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS")},

    {kLog, "--log-level", &O::log_level, "The least important lines that ranks show.", kLevel,
     setting("logging.level", "HOROVOD_LOG_LEVEL")},
    {kLog, "--log-without-timestamp", &O::log_without_timestamp, "Log lines without the time.",
     kNoValue,
     turned_off_by(
         "--log-with-timestamp",
         also_known("--log-hide-timestamp", "--no-log-hide-timestamp",
                    inverted(in_group(E::kTimestamps, setting("logging.with_timestamp",
                                                              "HOROVOD_LOG_HIDE_TIME")))))},
};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

}  // namespace hvd::launcher
