// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "base/text.h"

namespace hvd {
namespace {

// Also used in checks and messages below.
constexpr char kSecretKey[] = "_HOROVOD_SECRET_KEY";

// Readers: text to value, false when malformed ------------------------------------------------

template <typename T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// Scripts write 1; users also write true, yes and on.
bool read_value(std::string_view text, bool& value) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "yes" || word == "on") return value = true, true;
  if (word == "false" || word == "no" || word == "off") return value = false, true;
  int64_t number = 0;
  if (!read_number(text, number)) return false;
  value = number > 0;
  return true;
}

bool read_value(std::string_view text, std::string& value) {
  value = text;
  return true;
}

constexpr std::array<std::string_view, 6> kLogLevels = {"trace",   "debug", "info",
                                                        "warning", "error", "fatal"};

bool read_value(std::string_view text, LogLevel& value) {
  const auto found = std::find(kLogLevels.begin(), kLogLevels.end(), lower_case(text));
  if (found == kLogLevels.end()) return false;
  value = static_cast<LogLevel>(found - kLogLevels.begin());
  return true;
}

template <typename F>
bool for_each_item(std::string_view list, F take) {
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view item = trimmed(list.substr(0, comma));
    if (item.empty() || !take(item)) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

bool read_value(std::string_view text, std::vector<std::string>& value) {
  value.clear();
  return for_each_item(text, [&](std::string_view item) {
    value.emplace_back(item);
    return true;
  });
}

bool read_value(std::string_view text, std::vector<int>& value) {
  value.clear();
  return for_each_item(text, [&](std::string_view item) {
    return read_number(item, value.emplace_back()) && value.back() >= 0;
  });
}

// 32 bytes in base64 are 43 characters and one '='. This checks only the form; net/secret.cc
// decodes it.
bool read_value(std::string_view text, SecretText& value) {
  const auto is_base64 = [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '/'; };
  if (text.size() != 44 || text.back() != '=') return false;
  if (!std::all_of(text.begin(), text.end() - 1, is_base64)) return false;
  value = SecretText(std::string(text));
  return true;
}

bool read_value(std::string_view text, Config::WireProtection& value) {
  const std::string word = lower_case(text);
  if (word == "none") return value = Config::WireProtection::kNone, true;
  if (word == "tags") return value = Config::WireProtection::kTags, true;
  return false;
}

// The reverse: value to text
// -----------------------------------------------------------------------

std::string show_value(bool value) { return value ? "1" : "0"; }
std::string show_value(const std::string& value) { return value; }
std::string show_value(const SecretText& /*value*/) { return {}; }

template <typename T>
requires std::is_arithmetic_v<T> std::string show_value(T value) {
  return fmt::format("{}", value);
}

template <typename Rep, typename Period>
std::string show_value(std::chrono::duration<Rep, Period> value) {
  return fmt::format("{}", value.count());
}

template <typename T>
std::string show_value(const std::vector<T>& list) {
  std::string text;
  for (const T& item : list) text += (text.empty() ? "" : ",") + show_value(item);
  return text;
}

std::string show_value(LogLevel value) { return std::string(kLogLevels.at(size_t(value))); }

std::string show_value(Config::WireProtection value) {
  return value == Config::WireProtection::kTags ? "tags" : "none";
}

template <auto member>
std::string show_member(const Config& config) {
  return show_value(config.*member);
}

// Fields: how a row of the table is read and shown -----------------------------------------------

// NOLINTBEGIN(readability-identifier-naming): a row names the reader, as a function

template <auto member>
bool read_member(std::string_view text, Config& config) {
  return read_value(text, config.*member);
}
template <auto member>
constexpr Setting::Field read = {read_member<member>, show_member<member>};

template <auto member, int64_t least, int64_t most>
bool read_integer_member(std::string_view text, Config& config) {
  int64_t number = 0;
  if (!read_number(text, number) || number < least || number > most) return false;
  config.*member = static_cast<std::remove_reference_t<decltype(config.*member)>>(number);
  return true;
}

template <auto member, int64_t least, int64_t most = std::numeric_limits<int32_t>::max()>
constexpr Setting::Field read_integer = {read_integer_member<member, least, most>,
                                         show_member<member>};

bool read_real(std::string_view text, double least, double most, double& value) {
  return read_number(text, value) && std::isfinite(value) && value >= least && value <= most;
}

// A century: long enough for every purpose, and in the range of every clock.
constexpr double kLongest = 100.0 * 365 * 86400;

template <auto member, bool may_be_zero>
bool read_time_member(std::string_view text, Config& config) {
  double number = 0;
  if (!read_real(text, 0, kLongest, number) || (number == 0 && !may_be_zero)) return false;
  config.*member = std::remove_reference_t<decltype(config.*member)>(number);
  return true;
}

template <auto member, bool may_be_zero>
constexpr Setting::Field read_time = {read_time_member<member, may_be_zero>, show_member<member>};

// "host:port", "1.2.3.4:80" or "[::1]:80".
bool is_host_and_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (!bracketed && host.find(':') != std::string_view::npos) return false;
  int port = 0;
  return read_number(text.substr(colon + 1), port) && port >= 1 && port <= 65535;
}

bool read_places(std::string_view text, Config& config) {
  config.rendezvous.clear();
  return for_each_item(text, [&](std::string_view place) {
    config.rendezvous.append(config.rendezvous.empty() ? "" : ",").append(place);
    return is_host_and_port(place);
  });
}

constexpr Setting::Field read_rendezvous = {read_places, show_member<&Config::rendezvous>};

// The names of collectives/select.h. base does not depend on collectives; a test there compares
// them.
bool read_algorithm_name(std::string_view text, Config& config) {
  config.allreduce_algorithm = text;
  for (const std::string_view known :
       {"auto", "shared_memory", "recursive_doubling", "ring", "halving_doubling", "two_level"}) {
    if (text == known) return true;
  }
  return false;
}

constexpr Setting::Field read_algorithm = {read_algorithm_name,
                                           show_member<&Config::allreduce_algorithm>};

bool read_share(std::string_view text, Config& config) {
  return read_real(text, 0, 1, config.autotune_gaussian_process_noise);
}

constexpr Setting::Field read_noise = {read_share,
                                       show_member<&Config::autotune_gaussian_process_noise>};

// Horovod ignores an unknown log level; for compatibility so do we, with a warning.
bool read_level(std::string_view text, Config& config) {
  if (!read_value(text, config.log_level)) {
    config.log_level = LogLevel::kWarning;
    config.warnings.push_back(fmt::format(
        "HOROVOD_LOG_LEVEL=\"{}\" is not a level (trace, debug, info, warning, error, fatal); "
        "using warning",
        text));
  }
  return true;
}

constexpr Setting::Field read_log_level = {read_level, show_member<&Config::log_level>};

// NOLINTEND(readability-identifier-naming)

// The table ----------------------------------------------------------------------------------

constexpr char kEngine[] = "Engine";
constexpr char kAutotune[] = "Autotune";
constexpr char kReports[] = "Timeline, stall check, log";
constexpr char kPlace[] = "Rank and network";
constexpr char kLauncher[] = "Launcher";

constexpr char kSwitch[] = "a whole number (above 0 is on), true, false, yes, no, on, off";
constexpr char kCount[] = "a whole number from 0";
constexpr char kCountFrom1[] = "a whole number from 1";
constexpr char kPath[] = "a path";
constexpr char kSecondsOrZero[] = "seconds, from 0, fractions allowed";
constexpr char kSecondsAboveZero[] = "seconds, above 0, fractions allowed";

// 1 PiB: larger than any buffer, and far from an overflow of int64.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

using C = Config;
constexpr Setting kSettings[] = {
    {"HOROVOD_FUSION_THRESHOLD", kEngine, "134217728", "bytes, from 0",
     "Small tensors are fused into batches of at most this many bytes. 0 turns fusion off.",
     read_integer<&C::fusion_threshold, 0, kMaxBytes>},
    {"HOROVOD_CYCLE_TIME", kEngine, "0", "milliseconds, from 0, fractions allowed",
     "The longest time that a tensor waits for other tensors to be fused with it. With 0 a tensor "
     "does not wait; batches form while the network is busy.",
     read_time<&C::cycle_time, true>},
    {"HOROVOD_CACHE_CAPACITY", kEngine, "32768", kCount,
     "Number of tensors per process set whose negotiation is cached. 0 turns the cache off. Must "
     "be "
     "the same on all ranks. The default is larger than any model needs; it limits the memory of "
     "programs that use a new name for every call.",
     read_integer<&C::cache_capacity, 0>},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE", kEngine, "0", kSwitch,
     "Always reduces within each host first, then between hosts. If off, the cost model decides.",
     read<&C::hierarchical_allreduce>},
    {"HOROVOD_HIERARCHICAL_ALLGATHER", kEngine, "0", kSwitch,
     "Always gathers within each host first, then between hosts. If off, the cost model decides.",
     read<&C::hierarchical_allgather>},
    {"HOROVOD_ALLREDUCE_ALGORITHM", kEngine, "",
     "auto, shared_memory, recursive_doubling, ring, halving_doubling or two_level",
     "Uses this algorithm for every allreduce. `auto` and unset: the cost model selects one.",
     read_algorithm},
    {"HOROVOD_DETERMINISTIC", kEngine, "0", kSwitch,
     "Makes every bit of a result independent of fusion, order of submission and timing.",
     read<&C::deterministic>},
    {"HOROVOD_DISABLE_GROUP_FUSION", kEngine, "0", kSwitch,
     "Fuses the tensors of a group only with each other.", read<&C::disable_group_fusion>},
    {"HOROVOD_DYNAMIC_PROCESS_SETS", kEngine, "0", kSwitch,
     "Permits programs to add and remove process sets after init().",
     read<&C::dynamic_process_sets>},
    {"HOROVOD_THREAD_AFFINITY", kEngine, "", "comma-separated core numbers, one per local rank",
     "Pins the engine thread of each local rank to a core.", read<&C::thread_affinity>},
    {"HOROVOD_ELASTIC", kEngine, "0", kSwitch,
     "Marks the job as elastic: it continues when hosts are lost or added. The launcher sets it.",
     read<&C::elastic>},

    {"HOROVOD_AUTOTUNE", kAutotune, "0", kSwitch,
     "Searches for good values of those engine settings that are not set.", read<&C::autotune>},
    {"HOROVOD_AUTOTUNE_LOG", kAutotune, "", kPath,
     "Rank 0 writes the tried values to this file, as CSV. Has no effect without HOROVOD_AUTOTUNE.",
     read<&C::autotune_log>},
    {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", kAutotune, "3", kCount,
     "Number of samples that are discarded at the start.",
     read_integer<&C::autotune_warmup_samples, 0>},
    {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", kAutotune, "10", kCountFrom1,
     "Number of steps per measurement. A sample is the median of five measurements.",
     read_integer<&C::autotune_steps_per_sample, 1>},
    {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", kAutotune, "20", kCountFrom1,
     "Number of samples after which autotune ends and keeps the best values.",
     read_integer<&C::autotune_bayes_opt_max_samples, 1>},
    {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", kAutotune, "0.8", "a number from 0 to 1",
     "The noise of a sample that autotune assumes.", read_noise},

    {"HOROVOD_TIMELINE", kReports, "", "a path, or DYNAMIC",
     "Rank 0 writes a timeline to this file. With DYNAMIC, start_timeline() starts it.",
     read<&C::timeline>},
    {"HOROVOD_TIMELINE_MARK_CYCLES", kReports, "0", kSwitch,
     "Marks the cycles of the engine in the timeline.", read<&C::timeline_mark_cycles>},
    {"HOROVOD_TIMELINE_ALL_RANKS", kReports, "0", kSwitch,
     "Every rank writes a timeline, with its rank in the name of the file: timeline.3.json for "
     "timeline.json.",
     read<&C::timeline_all_ranks>},
    {"HOROVOD_STALL_CHECK_DISABLE", kReports, "0", kSwitch,
     "Turns off warnings about tensors that some ranks have not submitted.",
     read<&C::stall_check_disable>},
    {"HOROVOD_STALL_CHECK_TIME_SECONDS", kReports, "60", kSecondsAboveZero,
     "A warning reports a tensor that some ranks have not submitted for longer than this.",
     read_time<&C::stall_check_time, false>},
    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", kReports, "0", kSecondsOrZero,
     "The job ends if some ranks have not submitted a tensor for longer than this. With 0 it never "
     "ends for this reason. If it is below HOROVOD_STALL_CHECK_TIME_SECONDS, the warning comes "
     "after "
     "half of this time.",
     read_time<&C::stall_shutdown_time, true>},
    {"HOROVOD_LOG_LEVEL", kReports, "warning",
     "trace, debug, info, warning, error, fatal, any case; another text means warning",
     "The lowest level of log lines that are shown. Lines up to info are written to standard "
     "output, "
     "higher levels to standard error.",
     read_log_level},
    {"HOROVOD_LOG_HIDE_TIME", kReports, "0", kSwitch, "Omits the time from log lines.",
     read<&C::log_hide_time>},

    {"HOROVOD_RANK", kPlace, "0", kCount, "Rank of this process in the job.",
     read_integer<&C::rank, 0>},
    {"HOROVOD_SIZE", kPlace, "1", kCountFrom1, "Number of processes in the job.",
     read_integer<&C::size, 1>},
    {"HOROVOD_LOCAL_RANK", kPlace, "0", kCount,
     "Rank of this process among the processes on its host.", read_integer<&C::local_rank, 0>},
    {"HOROVOD_LOCAL_SIZE", kPlace, "1", kCountFrom1, "Number of processes of the job on this host.",
     read_integer<&C::local_size, 1>},
    {"HOROVOD_CROSS_RANK", kPlace, "0", kCount,
     "Rank of this host among the hosts that have this local rank.",
     read_integer<&C::cross_rank, 0>},
    {"HOROVOD_CROSS_SIZE", kPlace, "1", kCountFrom1, "Number of hosts that have this local rank.",
     read_integer<&C::cross_size, 1>},
    {"HOROVOD_HOSTNAME", kPlace, "localhost", "a host name",
     "The name of this host as the launcher uses it.", read<&C::hostname>},
    {"HOROVOD_RENDEZVOUS", kPlace, "", "host:port; [address]:port for IPv6; several with commas",
     "Address of the rendezvous server, where the ranks find each other. Unset for a single "
     "process. "
     "If there are several addresses, each rank uses one that it can reach.",
     read_rendezvous},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", kPlace, "", "a host name or address",
     "The host of the rendezvous server. HOROVOD_RENDEZVOUS takes precedence.",
     read<&C::rendezvous_host>},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", kPlace, "", "a port, 1 to 65535",
     "The port of the rendezvous server. HOROVOD_RENDEZVOUS takes precedence.",
     read_integer<&C::rendezvous_port, 1, 65535>},
    {"HOROVOD_GLOO_IFACE", kPlace, "", "comma-separated interface names",
     "The older name of HOROVOD_NETWORK_INTERFACES, which takes precedence.",
     read<&C::network_interfaces>},
    {"HOROVOD_NETWORK_INTERFACES", kPlace, "", "comma-separated interface names",
     "Listens and connects on these network interfaces only. A job of one rank uses none.",
     read<&C::network_interfaces>},
    {"HOROVOD_GLOO_TIMEOUT_SECONDS", kPlace, "30", kSecondsAboveZero,
     "At the start: how long a rank waits for the other ranks. Within an operation: how long it "
     "waits without progress. The time is counted from the last data that this or another rank has "
     "moved, so it does not depend on the size of the operation.",
     read_time<&C::timeout, false>},
    {"HOROVOD_HEARTBEAT_TIMEOUT_SECONDS", kPlace, "5", kSecondsAboveZero,
     "A rank from which nothing arrives for this time counts as lost.",
     read_time<&C::heartbeat_timeout, false>},
    {"HOROVOD_SHM_DISABLE", kPlace, "0", kSwitch,
     "Ranks on the same host use TCP instead of shared memory.", read<&C::shm_disable>},
    {"HOROVOD_TLS", kPlace, "0", kSwitch,
     "Encrypts every connection with TLS 1.3. Must be the same on all ranks.", read<&C::tls>},
    {"HOROVOD_WIRE_PROTECTION", kPlace, "tags", "tags, none",
     "Protection of tensors between hosts without TLS. `tags` authenticates them: a change on the "
     "network ends the job with an error. `none` does not. Other messages are always "
     "authenticated. "
     "Must be the same on all ranks.",
     read<&C::wire_protection>},
    {kSecretKey, kPlace, "", "32 bytes in base64",
     "The secret of the job. Every process proves to its peers that it has it. The launcher sets "
     "it.",
     read<&C::secret_key>},

    {"HOROVOD_START_TIMEOUT", kLauncher, "30", kSecondsAboveZero,
     "horovodrun gives up if not all ranks have started within this time. --start-timeout takes "
     "precedence.",
     read_time<&C::start_timeout, false>},
    {"HOROVOD_ELASTIC_TIMEOUT", kLauncher, "600", kSecondsAboveZero,
     "An elastic job ends if it has too few slots for this time. --elastic-timeout takes "
     "precedence.",
     read_time<&C::elastic_timeout, false>},
    {"HOROVOD_SPARK_START_TIMEOUT", kLauncher, "600", kSecondsAboveZero,
     "A run on Spark gives up if not all of its tasks have started within this time. The argument "
     "start_timeout takes precedence.",
     read_time<&C::spark_start_timeout, false>},
};

// Settings that are accepted and ignored -------------------------------------------------------

// Normalizers: the value in the form that setting_value() returns, or none when malformed.

std::optional<std::string> normalized_switch(std::string_view text) {
  bool value = false;
  if (!read_value(text, value)) return std::nullopt;
  return show_value(value);
}

template <int64_t least, int64_t most = std::numeric_limits<int32_t>::max()>
std::optional<std::string> normalized_integer(std::string_view text) {
  int64_t value = 0;
  if (!read_number(text, value) || value < least || value > most) return std::nullopt;
  return show_value(value);
}

template <bool ccl_too>
std::optional<std::string> normalized_backend(std::string_view text) {
  std::string word = lower_case(text);
  if (word == "mpi" || word == "gloo" || (word == "ccl" && ccl_too)) return word;
  return std::nullopt;
}

constexpr char kNoGpu[] = "This implementation has no operations on GPUs yet.";

// A malformed value is still an error: it shows a mistake in the script, and the value would take
// effect if the variable got a meaning here.
constexpr IgnoredSetting kIgnoredSettings[] = {
    {"HOROVOD_TORUS_ALLREDUCE", "0", kSwitch,
     "Reduces on GPUs in a torus: within each host and between hosts by NCCL.",
     "A torus of GPUs has no meaning for tensors in host memory.", normalized_switch},
    {"HOROVOD_CPU_OPERATIONS", "", "mpi, gloo or ccl, any case",
     "Selects the library that carries out operations on tensors in host memory.",
     "Tensors in host memory always travel by shared memory and TCP.", normalized_backend<true>},
    {"HOROVOD_CONTROLLER", "", "mpi or gloo, any case",
     "Selects the library by which the ranks agree on operations.",
     "The ranks always agree by shared memory and TCP. Rank and size are taken from the "
     "HOROVOD_* variables if they are set, otherwise from the launcher (table below).",
     normalized_backend<false>},
    {"HOROVOD_ADASUM_MPI_CHUNK_SIZE", "1073741824", "bytes, from 1",
     "Limits the size of one message of Adasum over MPI.",
     "Adasum always sends its data in segments of its own size.", normalized_integer<1, kMaxBytes>},
    {"HOROVOD_MPI_THREADS_DISABLE", "0", kSwitch, "Starts MPI without support for threads.",
     "Tensors do not travel by MPI.", normalized_switch},
    {"HOROVOD_ENABLE_XLA_OPS", "0", kSwitch,
     "Makes operations available in functions that XLA compiles.",
     "They are always available there.", normalized_switch},
    {"HOROVOD_ENABLE_ASYNC_COMPLETION", "0", kSwitch,
     "Completes operations on GPUs before their kernels have finished.", kNoGpu, normalized_switch},
    {"HOROVOD_NUM_NCCL_STREAMS", "1", kCountFrom1, "Number of NCCL streams.", kNoGpu,
     normalized_integer<1>},
    {"HOROVOD_BATCH_D2D_MEMCOPIES", "1", kSwitch,
     "Copies the tensors of a batch between GPU buffers in one kernel.", kNoGpu, normalized_switch},
    {"HOROVOD_DISABLE_NVTX_RANGES", "0", kSwitch,
     "Omits the NVTX ranges that the profilers of Nvidia show.", kNoGpu, normalized_switch},
    {"HOROVOD_CCL_CACHE", "0", kSwitch, "Caches operations of oneCCL.",
     "There is no oneCCL backend.", normalized_switch},
};

// Other launchers -------------------------------------------------------------------------------

// The variables by which another launcher gives a process its rank and size. Slurm sets its
// variables in every shell of an allocation, also if no parallel program was started; so they are
// used only if HOROVOD_RENDEZVOUS is set.
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  bool is_mpi;  // its variables mean that the process belongs to a parallel program
};
constexpr LauncherVariables kLauncherVariables[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"MPICH and Intel MPI", "PMI_RANK", "PMI_SIZE", true},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", false},
};

// Uses the first launcher that has set both variables. Our own variables take precedence.
void read_foreign_place(Config::Lookup lookup, Config& config, std::vector<std::string>& problems) {
  if (config.was_given("HOROVOD_RANK") || config.was_given("HOROVOD_SIZE")) return;
  for (const LauncherVariables& launcher : kLauncherVariables) {
    const char* rank = lookup(launcher.rank);
    const char* size = lookup(launcher.size);
    if (rank == nullptr || size == nullptr) continue;
    if (!launcher.is_mpi && config.rendezvous.empty()) continue;
    if (!read_number(trimmed(rank), config.rank) || !read_number(trimmed(size), config.size) ||
        config.rank < 0 || config.rank >= config.size) {
      problems.push_back(fmt::format("{}=\"{}\" and {}=\"{}\" are not a rank and the size of a job",
                                     launcher.rank, rank, launcher.size, size));
    }
    return;
  }
}

// Also if our own variables have set rank and size: our launcher may use an MPI launcher.
bool is_place_in_mpi(Config::Lookup lookup, const Config& config) {
  for (const LauncherVariables& launcher : kLauncherVariables) {
    const char* rank = lookup(launcher.rank);
    const char* size = lookup(launcher.size);
    if (!launcher.is_mpi || rank == nullptr || size == nullptr) continue;
    int rank_there = 0;
    int size_there = 0;
    return read_number(trimmed(rank), rank_there) && read_number(trimmed(size), size_there) &&
           rank_there == config.rank && size_there == config.size;
  }
  return false;
}

// Checks across variables ----------------------------------------------------------------------

void check_place(const char* what, int rank, int size, std::vector<std::string>& problems) {
  if (rank < size) return;
  problems.push_back(
      fmt::format("HOROVOD_{0}RANK={1} has to be below HOROVOD_{0}SIZE={2}", what, rank, size));
}

// A job that ends after a stall warns first: after half of the shutdown time, unless the user has
// chosen an earlier time.
void fit_stall_times(Config& config) {
  if (config.stall_shutdown_time <= Config::Seconds(0)) return;
  if (config.stall_shutdown_time >= config.stall_check_time) return;
  const Config::Seconds wanted = config.stall_check_time;
  config.stall_check_time = config.stall_shutdown_time / 2;
  if (!config.was_given("HOROVOD_STALL_CHECK_TIME_SECONDS")) return;
  config.warnings.push_back(fmt::format(
      "HOROVOD_STALL_CHECK_TIME_SECONDS={} is above HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={}, which "
      "would end the job before anything is reported; tensors are reported after {} seconds",
      wanted.count(), config.stall_shutdown_time.count(), config.stall_check_time.count()));
}

void finish(Config::Lookup lookup, Config& config, std::vector<std::string>& problems) {
  check_place("", config.rank, config.size, problems);
  check_place("LOCAL_", config.local_rank, config.local_size, problems);
  check_place("CROSS_", config.cross_rank, config.cross_size, problems);
  if (config.rendezvous_host.empty() != (config.rendezvous_port == 0)) {
    problems.emplace_back(
        "HOROVOD_GLOO_RENDEZVOUS_ADDR and HOROVOD_GLOO_RENDEZVOUS_PORT have to be set together");
  } else if (config.rendezvous.empty() && config.rendezvous_port != 0) {
    const bool v6 = config.rendezvous_host.find(':') != std::string::npos;
    config.rendezvous = fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), config.rendezvous_host,
                                    config.rendezvous_port);
  }
  read_foreign_place(lookup, config, problems);
  config.started_by_mpi = is_place_in_mpi(lookup, config);
  fit_stall_times(config);
  if (config.was_given("HOROVOD_AUTOTUNE_LOG") && !config.autotune) {
    config.warnings.emplace_back(
        "HOROVOD_AUTOTUNE_LOG has no effect without HOROVOD_AUTOTUNE=1: nothing is written");
  }
}

std::string refusal(std::string_view variable, std::string_view accepted, std::string_view text) {
  return fmt::format("{}={}: accepted is {}", variable,
                     variable == kSecretKey ? "(not shown)" : fmt::format("\"{}\"", text),
                     accepted);
}

// Trimmed; empty if unset.
std::string_view value_of(Config::Lookup lookup, const char* variable) {
  const char* value = lookup(variable);
  return value == nullptr ? std::string_view() : trimmed(value);
}

}  // namespace

Result<Config> Config::from(Lookup lookup) {
  Config config;
  std::vector<std::string> problems;
  for (const Setting& setting : kSettings) {
    const std::string_view text = value_of(lookup, setting.variable);
    if (text.empty()) continue;
    config.given.emplace_back(setting.variable);
    if (setting.read(text, config)) continue;
    problems.push_back(refusal(setting.variable, setting.accepted, text));
  }
  for (const IgnoredSetting& setting : kIgnoredSettings) {
    const std::string_view text = value_of(lookup, setting.variable);
    if (text.empty()) continue;
    config.given.emplace_back(setting.variable);
    if (setting.normalized(text)) continue;
    problems.push_back(refusal(setting.variable, setting.accepted, text));
  }
  // A field whose value was malformed has its default: checks across fields would be misleading.
  if (problems.empty()) finish(lookup, config, problems);
  if (!problems.empty()) return invalid_argument(join(problems, "; "));
  return config;
}

Result<Config> Config::from_environment(const SecretText& secret) {
  auto config = from([&](const char* variable) -> const char* {
    const bool is_given = !secret.empty() && variable == std::string_view(kSecretKey);
    return is_given ? secret.text().c_str() : std::getenv(variable);
  });
  if (!config.is_ok()) return config;
  for (const std::string& warning : config->warnings) HVD_LOG(kWarning, "{}", warning);
  if (config->rank == 0 || config->timeline_all_ranks) HVD_TRY(config->check_timeline());
  return config;
}

SecretText take_secret_from_environment() {
  const char* text = std::getenv(kSecretKey);
  if (text == nullptr) return {};
  SecretText secret{std::string(text)};
  (void)::unsetenv(kSecretKey);
  return secret;
}

Status Config::check_timeline(const std::string& directory) const {
  if (timeline.empty() || timeline == "DYNAMIC") return Status::ok();
  const std::filesystem::path path = std::filesystem::path(directory) / timeline;
  const bool exists = !timeline_all_ranks && ::access(path.c_str(), F_OK) == 0;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (::access((exists ? path : folder).c_str(), exists ? W_OK : W_OK | X_OK) == 0) {
    return Status::ok();
  }
  const int error = errno;
  return io_error(fmt::format("HOROVOD_TIMELINE=\"{}\" cannot be written: {}", timeline,
                              (exists ? path : folder).string()),
                  error);
}

bool Config::was_given(std::string_view variable) const {
  return std::find(given.begin(), given.end(), variable) != given.end();
}

std::span<const Setting> settings() { return kSettings; }
std::span<const IgnoredSetting> ignored_settings() { return kIgnoredSettings; }

namespace {

template <typename Table>
auto* find_in(Table& table, std::string_view variable) {
  auto* found = std::find_if(std::begin(table), std::end(table),
                             [&](const auto& setting) { return setting.variable == variable; });
  return found == std::end(table) ? nullptr : found;
}

Result<std::string> ignored_value(const IgnoredSetting& setting, std::string_view text) {
  if (text.empty()) return std::string(setting.default_text);
  std::optional<std::string> value = setting.normalized(text);
  if (!value) return invalid_argument(refusal(setting.variable, setting.accepted, text));
  return *std::move(value);
}

Result<const Setting*> find_setting(std::string_view variable) {
  const Setting* found = find_in(kSettings, variable);
  if (found == nullptr) {
    return not_found(fmt::format("there is no setting {}; docs/settings.md lists them", variable));
  }
  if (variable == kSecretKey) {
    return invalid_argument(fmt::format("{} is not shown", kSecretKey));
  }
  return found;
}

}  // namespace

Result<std::string> setting_value(std::string_view variable) {
  const auto lookup = [](const char* name) -> const char* { return std::getenv(name); };
  if (const IgnoredSetting* ignored = find_in(kIgnoredSettings, variable)) {
    HVD_TRY(Config::from(lookup).status());
    return ignored_value(*ignored, value_of(lookup, ignored->variable));
  }
  HVD_TRY_ASSIGN(const Setting* setting, find_setting(variable));
  HVD_TRY_ASSIGN(const Config config, Config::from(lookup));
  return setting->field.show(config);
}

Result<std::string> setting_value(std::string_view variable, std::string_view text) {
  text = trimmed(text);
  if (const IgnoredSetting* ignored = find_in(kIgnoredSettings, variable)) {
    return ignored_value(*ignored, text);
  }
  HVD_TRY_ASSIGN(const Setting* setting, find_setting(variable));
  Config config;
  if (!text.empty() && !setting->read(text, config)) {
    return invalid_argument(refusal(setting->variable, setting->accepted, text));
  }
  return setting->field.show(config);
}

std::string settings_page() {
  std::string page =
      "# Settings\n\n"
      "Horovod reads these environment variables once, when a job starts. An empty value counts "
      "as\n"
      "unset. With a malformed value the job does not start; the message names the variable, its\n"
      "value and the accepted values.\n\n"
      "`make docs` generates this page from the tables in `core/base/config.cc`.\n";
  std::string_view section;
  for (const Setting& setting : kSettings) {
    if (setting.section != section) {
      section = setting.section;
      page += fmt::format(
          "\n## {}\n\n| Variable | Default | Accepted | Meaning |\n|---|---|---|---|\n", section);
    }
    page += fmt::format("| `{}` | {} | {} | {} |\n", setting.variable,
                        setting.default_text.empty() ? "unset" : setting.default_text,
                        setting.accepted, setting.documentation);
  }
  page +=
      "\n## Accepted, without effect\n\n"
      "Variables of Horovod that scripts may set. Horovod checks their values and then ignores\n"
      "them.\n\n"
      "| Variable | Default | Accepted | In Horovod | Here |\n|---|---|---|---|---|\n";
  for (const IgnoredSetting& setting : kIgnoredSettings) {
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", setting.variable,
                        setting.default_text.empty() ? "unset" : setting.default_text,
                        setting.accepted, setting.meaning, setting.reason);
  }
  page +=
      "\n## Ranks that another launcher starts\n\n"
      "If neither `HOROVOD_RANK` nor `HOROVOD_SIZE` is set, a process takes its rank and the size\n"
      "of the job from the first launcher in this table that has set both variables.\n"
      "`HOROVOD_RENDEZVOUS` and `_HOROVOD_SECRET_KEY` must be the same on all ranks. Rank 0 runs "
      "the\n"
      "rendezvous server if the address belongs to its own host and no other process listens\n"
      "there.\n\n| Launcher | Rank | Size |\n|---|---|---|\n";
  for (const LauncherVariables& launcher : kLauncherVariables) {
    page += fmt::format("| {}{} | `{}` | `{}` |\n", launcher.launcher,
                        launcher.is_mpi ? "" : " (only together with `HOROVOD_RENDEZVOUS`)",
                        launcher.rank, launcher.size);
  }
  return page;
}

}  // namespace hvd
