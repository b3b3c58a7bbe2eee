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

// Building blocks of the rows below --------------------------------------------------------------

constexpr char kGeneral[] = "General";
constexpr char kHosts[] = "Processes and hosts";
constexpr char kOutput[] = "Output";
constexpr char kElastic[] = "Elastic jobs";
constexpr char kController[] = "How ranks are started";
constexpr char kTuning[] = "Tuning";
constexpr char kAutotune[] = "Autotune";
constexpr char kTimeline[] = "Timeline";
constexpr char kStalls[] = "Stall check";
constexpr char kLibraries[] = "Libraries";
constexpr char kLog[] = "Logging";

constexpr int kMaxMegabytes = 1 << 30;  // 2^50 bytes
constexpr int kMaxProcesses = 1 << 20;
constexpr int kMaxSeconds = 10 * 365 * 86400;

constexpr FlagValue kNoValue;  // of a switch

// A number between inclusive limits, or any text if the field is a text.

constexpr FlagValue value(std::string_view name, double least = 0,
                          double most = std::numeric_limits<int>::max()) {
  return {name, least, most};
}

// A text that `accepts` checks; `accepted` describes it in messages and in the documentation.
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

// The functions below nest: each adds one property to the extras of a flag.
//
// The environment variable that ranks get.
constexpr FlagExtras variable(std::string_view name) {
  FlagExtras extras;
  extras.variable = name;
  return extras;
}

// A variable that the config file can set as well, by the key "section.name".
constexpr FlagExtras setting(std::string_view config_key, std::string_view name) {
  FlagExtras extras = variable(name);
  extras.config_key = config_key;
  return extras;
}

// The flag is in MiB and the variable in bytes.
constexpr FlagExtras in_mebibytes(FlagExtras extras) {
  extras.factor = 1 << 20;
  return extras;
}

// The key of the config file has the opposite meaning, as in stall_check.enabled.
constexpr FlagExtras inverted(FlagExtras extras) {
  extras.config_inverted = true;
  return extras;
}

// Without `flag` the variable is not set.
constexpr FlagExtras needing(std::string_view flag, FlagExtras extras) {
  extras.needs = flag;
  return extras;
}

// Names that set the switch to false.
constexpr FlagExtras turned_off_by(std::string_view names, FlagExtras extras) {
  extras.off = names;
  return extras;
}

// Names of older versions: accepted, not shown in the help.
constexpr FlagExtras also_known(std::string_view on, std::string_view off, FlagExtras extras) {
  extras.hidden_names = on;
  extras.hidden_off_names = off;
  return extras;
}

// At most one flag of the group may be given.
constexpr FlagExtras in_group(ExclusiveGroup group, FlagExtras extras = {}) {
  extras.exclusive = group;
  return extras;
}

// The table --------------------------------------------------------------------------------------

using O = Options;
using E = ExclusiveGroup;

// Order and sections are those of the help and of docs/horovodrun.md. After a change run `make
// docs`. Names, values, variables and keys are those of Horovod 0.28; existing scripts rely on
// them.
constexpr Flag kFlags[] = {
    {kGeneral, "-h, --help", &O::help, "Shows this page."},
    {kGeneral, "-v, --version", &O::version, "Shows the version."},
    {kGeneral, "-cb, --check-build", &O::check_build,
     "Shows which frameworks, controllers and operations are available."},
    {kGeneral, "--doctor", &O::doctor,
     "Checks this machine and the hosts and reports problems. Starts no job."},
    {kGeneral, "--verbose", &O::verbose, "Prints more about each step."},
    {kGeneral, "--config-file", &O::config_file,
     "Reads flags from this YAML file. Flags on the command line win.", kFile},

    {kHosts, "-np, --num-proc", &O::num_proc,
     "Number of processes to start. The default is the size of the scheduler's allocation.",
     value("N", 1, kMaxProcesses)},
    {kHosts, "-H, --hosts", &O::hosts,
     "Hosts and the number of processes on each, as in h1:4,h2:4. The default is this host, or the "
     "hosts that a scheduler has allocated.",
     value("HOSTS"), in_group(E::kHosts)},
    {kHosts, "-hostfile, --hostfile", &O::hostfile,
     "A file that lists the hosts, with a line \"name slots=4\" per host.", kFile,
     in_group(E::kHosts)},
    {kHosts, "--network-interfaces", &O::interfaces,
     "Uses only these network interfaces. Can be repeated.", kInterfaces},
    {kHosts, "--network-interface", &O::interfaces, "The same for one interface. Can be repeated.",
     kInterface},
    {kHosts, "--start-timeout", &O::start_timeout,
     "Gives up if not all ranks have started after this many seconds. The default is "
     "HOROVOD_START_TIMEOUT, or 30.",
     value("SECONDS", 1, kMaxSeconds)},
    {kHosts, "-p, --ssh-port", &O::ssh_port, "Port of the ssh server on the other hosts.",
     value("PORT", 1, 65535)},
    {kHosts, "-i, --ssh-identity-file", &O::ssh_identity_file, "Private key for ssh.", kFile},
    {kHosts, "--ssh-args", &O::ssh_args,
     "Additional arguments for ssh, before the host, as in --ssh-args=\"-o "
     "StrictHostKeyChecking=no\". "
     "The default is your own ssh configuration.",
     value("ARGUMENTS")},
    {kHosts, "--disable-cache", &O::disable_cache,
     "Has no effect; accepted for compatibility. Results of host checks are not cached."},

    {kOutput, "--output-filename", &O::output_filename,
     "Also writes the output of each rank to the files DIR/rank.N/stdout and stderr.", kDirectory},
    {kOutput, "-prefix-timestamp, --prefix-output-with-timestamp", &O::prefix_timestamp,
     "Puts the time before each output line of a rank.", kNoValue, in_group(E::kTimestamps)},

    {kElastic, "--min-np, --min-num-proc", &O::min_num_proc,
     "The job continues with at least this many processes. Makes the job elastic. The default is "
     "-np.",
     value("N", 1, kMaxProcesses)},
    {kElastic, "--max-np, --max-num-proc", &O::max_num_proc,
     "The job grows up to this many processes. The default is the number of slots.",
     value("N", 1, kMaxProcesses)},
    {kElastic, "--host-discovery-script", &O::discovery_script,
     "A program that prints the available hosts, one \"name\" or \"name:slots\" per line. Makes "
     "the job elastic.",
     kProgram, in_group(E::kHosts)},
    {kElastic, "--slots-per-host", &O::slots_per_host,
     "Processes on each host that the discovery script prints without slots.", value("N", 1)},
    {kElastic, "--elastic-timeout", &O::elastic_timeout,
     "Gives up if there are not enough slots for this many seconds. The default is "
     "HOROVOD_ELASTIC_TIMEOUT, or 600.",
     value("SECONDS", 1, kMaxSeconds)},
    {kElastic, "--reset-limit", &O::reset_limit,
     "Gives up after the job was reset this many times. The default is no limit.", value("N", 0)},
    {kElastic, "--blacklist-cooldown-range", &O::cooldown_range,
     "A failed host is used again after a time between these limits. The default is never.",
     value("SECONDS SECONDS", 1, 3600)},

    {kController, "--gloo", &O::use_gloo, "horovodrun starts the ranks. The default.", kNoValue,
     in_group(E::kController)},
    {kController, "--mpi", &O::use_mpi, "mpirun starts the ranks.", kNoValue,
     in_group(E::kController)},
    {kController, "--jsrun", &O::use_jsrun,
     "jsrun starts the ranks. Only on LSF clusters, where it is the default.", kNoValue,
     in_group(E::kController)},
    {kController, "--mpi-args", &O::mpi_args,
     "Additional arguments for mpirun, or for MPI under jsrun, as in --mpi-args=\"-x NCCL_DEBUG\".",
     value("ARGUMENTS")},
    {kController, "--binding-args", &O::binding_args,
     "Arguments of mpirun or jsrun that bind ranks to cores.", value("ARGUMENTS")},
    {kController, "--tcp", &O::tcp, "MPI and NCCL communicate by TCP instead of InfiniBand.",
     kNoValue, variable("NCCL_IB_DISABLE")},

    {kTuning, "--fusion-threshold-mb", &O::fusion_threshold_mb,
     "Small tensors are fused into batches of up to this many MiB.", value("N", 0, kMaxMegabytes),
     in_mebibytes(setting("params.fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD"))},
    {kTuning, "--cycle-time-ms", &O::cycle_time_ms,
     "Maximum time in milliseconds that a tensor waits for other tensors to be fused with it.",
     value("TIME"), setting("params.cycle_time_ms", "HOROVOD_CYCLE_TIME")},
    {kTuning, "--cache-capacity", &O::cache_capacity,
     "Number of tensors per process set whose negotiation is cached.", value("N", 0),
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

    {kAutotune, "--autotune", &O::autotune,
     "Searches good values for the settings above that are not set.", kNoValue,
     turned_off_by("--no-autotune", setting("autotune.enabled", "HOROVOD_AUTOTUNE"))},
    {kAutotune, "--autotune-log-file", &O::autotune_log_file,
     "Rank 0 writes the values tried and their scores to this CSV file.", kFile,
     needing("--autotune", setting("autotune.log_file", "HOROVOD_AUTOTUNE_LOG"))},
    {kAutotune, "--autotune-warmup-samples", &O::autotune_warmup_samples,
     "Number of samples to discard at the start.", value("N", 0),
     needing("--autotune", setting("autotune.warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"))},
    {kAutotune, "--autotune-steps-per-sample", &O::autotune_steps_per_sample,
     "Number of steps per sample.", value("N", 1),
     needing("--autotune",
             setting("autotune.steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"))},
    {kAutotune, "--autotune-bayes-opt-max-samples", &O::autotune_bayes_opt_max_samples,
     "Number of samples after which the best values so far are kept.", value("N", 1),
     needing("--autotune",
             setting("autotune.bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"))},
    {kAutotune, "--autotune-gaussian-process-noise", &O::autotune_gaussian_process_noise,
     "Assumed noise of the samples.", value("NOISE", 0, 1),
     needing("--autotune", setting("autotune.gaussian_process_noise",
                                   "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"))},

    {kTimeline, "--timeline-filename", &O::timeline_filename,
     "Rank 0 writes a timeline to this file.", kFile,
     setting("timeline.filename", "HOROVOD_TIMELINE")},
    {kTimeline, "--timeline-mark-cycles", &O::timeline_mark_cycles,
     "Marks the engine's cycles in the timeline.", kNoValue,
     needing("--timeline-filename",
             turned_off_by("--no-timeline-mark-cycles",
                           setting("timeline.mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES")))},

    {kStalls, "--no-stall-check", &O::no_stall_check,
     "Turns off warnings about tensors that some ranks have not submitted.", kNoValue,
     turned_off_by("--stall-check",
                   inverted(setting("stall_check.enabled", "HOROVOD_STALL_CHECK_DISABLE")))},
    {kStalls, "--stall-check-warning-time-seconds", &O::stall_check_warning_time,
     "A tensor that waits longer than this for some ranks is reported.",
     value("SECONDS", 1, kMaxSeconds),
     setting("stall_check.warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS")},
    {kStalls, "--stall-check-shutdown-time-seconds", &O::stall_check_shutdown_time,
     "A tensor that waits longer than this ends the job. 0 means no limit.",
     value("SECONDS", 0, kMaxSeconds),
     setting("stall_check.shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS")},

    {kLibraries, "--mpi-threads-disable", &O::mpi_threads_disable,
     "Has no effect; accepted for compatibility. Tensors are not sent by MPI.", kNoValue,
     turned_off_by("--no-mpi-threads-disable",
                   setting("library_options.mpi_threads_disable", "HOROVOD_MPI_THREADS_DISABLE"))},
    {kLibraries, "--num-nccl-streams", &O::num_nccl_streams, "Number of NCCL streams.",
     value("N", 1), setting("library_options.num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS")},
    {kLibraries, "--thread-affinity", &O::thread_affinity,
     "Pins the engine thread of each local rank to a core.", kCores,
     setting("library_options.thread_affinity", "HOROVOD_THREAD_AFFINITY")},
    {kLibraries, "--gloo-timeout-seconds", &O::gloo_timeout,
     "How long ranks wait for each other at the start, and within one operation for a rank that "
     "makes no progress and has not exited.",
     value("SECONDS", 1, kMaxSeconds),
     setting("library_options.gloo_timeout_seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS")},

    {kLog, "--log-level", &O::log_level, "The lowest level of log lines that ranks print.", kLevel,
     setting("logging.level", "HOROVOD_LOG_LEVEL")},
    {kLog, "--log-without-timestamp", &O::log_without_timestamp,
     "Writes log lines without the time.", kNoValue,
     turned_off_by(
         "--log-with-timestamp",
         also_known("--log-hide-timestamp", "--no-log-hide-timestamp",
                    inverted(in_group(E::kTimestamps, setting("logging.with_timestamp",
                                                              "HOROVOD_LOG_HIDE_TIME")))))},
};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

}  // namespace hvd::launcher
