// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>

#include "base/config.h"
#include "launcher/plan/assignment.h"
#include "launcher/plan/check_build.h"
#include "launcher/plan/command_line.h"
#include "launcher/plan/config_file.h"
#include "launcher/plan/help.h"
#include "launcher/plan/jsrun.h"
#include "launcher/plan/lsf.h"
#include "launcher/plan/mpirun.h"
#include "launcher/plan/schedulers.h"
#include "launcher/plan/text.h"
#include "launcher/plan/worker_environment.h"

namespace hvd::launcher {
namespace {

constexpr char kExample[] = "as in horovodrun -np 4 python train.py";

enum class LaunchMethod { kNative, kMpirun, kJsrun };

// Where the job runs. `allocation` is set if the hosts are from a scheduler and not from the user.
struct Resources {
  std::vector<HostSlots> hosts;
  int num_proc = 1;
  std::optional<Allocation> allocation;
};

std::chrono::seconds whole_seconds(Config::Seconds time) {
  return std::chrono::seconds(static_cast<int64_t>(std::ceil(time.count())));
}

// Whether mpirun -x accepts the name. mpirun forwards MPI's own variables by itself.
bool is_variable_name(std::string_view name) {
  if (name.starts_with("OMPI_") || name.starts_with("PMIX_")) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Makes one plan. `system` must outlive it.
class Planner {
 public:
  Planner(CommandLine line, const SystemInfo& system)
      : given_(line.options),
        options_(std::move(line.options)),
        command_(std::move(line.command)),
        system_(system) {
    plan_.warnings = std::move(line.warnings);
  }

  // The order of checks is the order in which users see errors: files and settings first, then the
  // command, then hosts.
  Result<Plan> make() {
    HVD_TRY(read_config_file());
    HVD_TRY(make_environment());
    HVD_TRY(make_shell());
    if (options_.doctor) {
      HVD_TRY_ASSIGN(plan_.action, doctor());
      return std::move(plan_);
    }
    if (command_.empty()) {
      return invalid_argument(fmt::format("there is no command to run, {}", kExample));
    }
    warn_of_flags_without_effect();
    HVD_TRY_ASSIGN(plan_.action, is_elastic() ? elastic() : job());
    return std::move(plan_);
  }

 private:
  // Common parts ---------------------------------------------------------------------------------

  Status read_config_file() {
    if (!options_.config_file) return Status::ok();
    const auto text = read_file(*options_.config_file);
    if (!text.is_ok()) return text.status().with_context("--config-file");
    return apply_config_file(*text, *options_.config_file, options_, plan_.warnings);
  }

  // The core checks the settings here too. So the user sees one error, and not one error per rank.
  Status make_environment() {
    environment_ = exported_environment(system_.environment);
    add_flag_variables(options_, environment_);
    HVD_TRY_ASSIGN(config_, Config::from([this](const char* variable) -> const char* {
                     const auto found = environment_.find(variable);
                     return found == environment_.end() ? nullptr : found->second.c_str();
                   }));
    plan_.warnings.insert(plan_.warnings.end(), config_.warnings.begin(), config_.warnings.end());
    plan_.log_level = config_.log_level;
    plan_.log_hide_time = config_.log_hide_time;
    return Status::ok();
  }

  // A key file that cannot be read is an error here; ssh would only warn and try other keys.
  Status make_shell() {
    shell_.program = kubernetes_shell(system_).value_or("ssh");
    shell_.port = options_.ssh_port;
    shell_.identity_file = options_.ssh_identity_file.value_or("");
    if (!shell_.identity_file.empty() && access(shell_.identity_file.c_str(), R_OK) != 0) {
      return io_error(shell_.identity_file, errno).with_context("--ssh-identity-file");
    }
    HVD_TRY_ASSIGN(shell_.arguments, shell_words("--ssh-args", options_.ssh_args));
    return Status::ok();
  }

  static Result<std::vector<std::string>> shell_words(std::string_view flag,
                                                      const Options::Text& text) {
    auto split = split_like_shell(text.value_or(""));
    if (!split.is_ok()) return split.status().with_context(flag);
    return split;
  }

  bool verbose() const { return options_.verbose.value_or(false); }

  std::chrono::seconds start_timeout() const {
    if (options_.start_timeout) return std::chrono::seconds(*options_.start_timeout);
    return whole_seconds(config_.start_timeout);
  }

  // Hosts and processes --------------------------------------------------------------------------

  // The hosts of -H or --hostfile; empty without these flags.
  Result<std::vector<HostSlots>> given_hosts() const {
    if (options_.hosts) {
      auto hosts = parse_host_list(*options_.hosts);
      if (!hosts.is_ok()) return hosts.status().with_context("-H");
      return hosts;
    }
    if (!options_.hostfile) return std::vector<HostSlots>();
    const auto text = read_file(*options_.hostfile);
    if (!text.is_ok()) return text.status().with_context("--hostfile");
    return parse_host_file(*text, *options_.hostfile);
  }

  Status missing_num_proc() const {
    return invalid_argument(fmt::format("-np is missing: how many processes? {}", kExample));
  }

  // In this order: the user's hosts, the scheduler's allocation, this machine alone.
  Result<Resources> find_resources() const {
    Resources resources;
    if (options_.hosts || options_.hostfile) {
      HVD_TRY_ASSIGN(resources.hosts, given_hosts());
      if (!options_.num_proc) return missing_num_proc();
      resources.num_proc = *options_.num_proc;
      return resources;
    }
    HVD_TRY_ASSIGN(resources.allocation, find_allocation(system_));
    if (resources.allocation) {
      resources.hosts = resources.allocation->hosts;
      resources.num_proc = options_.num_proc.value_or(resources.allocation->num_proc);
      // With a single allocated host, -np may exceed its slots (oversubscription), as for
      // localhost.
      if (resources.hosts.size() == 1) {
        resources.hosts[0].slots = std::max(resources.hosts[0].slots, resources.num_proc);
      }
      return resources;
    }
    if (!options_.num_proc) return missing_num_proc();
    resources.num_proc = *options_.num_proc;
    resources.hosts = {{"localhost", resources.num_proc}};
    return resources;
  }

  Result<std::vector<Slot>> assigned(const Resources& resources) const {
    auto slots = assign_slots(resources.hosts, resources.num_proc);
    if (slots.is_ok() || !resources.allocation) return slots;
    return slots.status().with_context(
        fmt::format("{} has allocated fewer slots", resources.allocation->scheduler));
  }

  // Jobs of fixed size ---------------------------------------------------------------------------

  Result<Action> job() {
    HVD_TRY_ASSIGN(const Resources resources, find_resources());
    HVD_TRY_ASSIGN(const LaunchMethod method, choose_launch_method(resources));
    if (method == LaunchMethod::kMpirun) return mpirun(resources);
    if (method == LaunchMethod::kJsrun) return jsrun(resources);
    warn_of_mpi_flags();
    Launch launch = native_launch();
    HVD_TRY_ASSIGN(launch.slots, assigned(resources));
    return Action(std::move(launch));
  }

  // A flag decides. Without one, jsrun is the default where LSF's resources are known and jsrun
  // exists.
  Result<LaunchMethod> choose_launch_method(const Resources& resources) const {
    if (options_.use_jsrun && !is_under_lsf(system_)) {
      return invalid_argument("--jsrun works on LSF clusters only, and LSB_JOBID is not set");
    }
    if (options_.use_jsrun) return LaunchMethod::kJsrun;
    if (options_.use_mpi) return LaunchMethod::kMpirun;
    if (options_.use_gloo || !resources.allocation || !resources.allocation->node)
      return LaunchMethod::kNative;
    const auto jsrun = system_.output_of({"jsrun", "--version"});
    return jsrun.status().code() == StatusCode::kNotFound ? LaunchMethod::kNative
                                                          : LaunchMethod::kJsrun;
  }

  Launch native_launch() const {
    Launch launch;
    launch.command = command_;
    launch.environment = environment_;
    launch.environment["HOROVOD_CONTROLLER"] = "gloo";
    launch.environment["HOROVOD_CPU_OPERATIONS"] = "gloo";
    launch.directory = system_.directory;
    launch.shell = shell_;
    launch.output = output();
    launch.interfaces = options_.interfaces;
    launch.start_timeout = start_timeout();
    launch.tls = config_.tls;
    launch.verbose = verbose();
    return launch;
  }

  OutputOptions output() const {
    return {options_.output_filename.value_or(""), options_.prefix_timestamp.value_or(false)};
  }

  // mpirun and jsrun run on this host, so they get the complete environment, including
  // host-specific variables. Their arguments name the variables that they export to the ranks.
  ProgramLaunch program_launch(const Resources& resources) const {
    ProgramLaunch launch;
    launch.environment = without_slot_variables(system_.environment);
    add_flag_variables(options_, launch.environment);
    launch.directory = system_.directory;
    launch.interfaces = options_.interfaces;
    launch.hosts = resources.hosts;
    launch.tls = config_.tls;
    launch.verbose = verbose();
    return launch;
  }

  // Runs `mpirun --version` to recognise the implementation. mpirun exports variables by name:
  // those of exported_environment(), and the two that run_program() adds.
  Result<Action> mpirun(const Resources& resources) {
    HVD_TRY(assigned(resources).status());
    const auto version = system_.output_of({"mpirun", "--version"});
    if (!version.is_ok()) {
      return version.status().with_context(
          "--mpi needs Open MPI, Spectrum MPI, MPICH or Intel MPI; without it horovodrun starts "
          "the ranks itself");
    }
    MpirunJob job{.num_proc = resources.num_proc,
                  .hosts = resources.hosts,
                  .command = command_,
                  .shell = shell_,
                  .output = output(),
                  .interfaces = options_.interfaces,
                  .tcp = options_.tcp.value_or(false)};
    HVD_TRY_ASSIGN(job.implementation, recognise_mpi(*version));
    if (job.output.timestamps && is_hydra(job.implementation)) {
      warn("-prefix-timestamp has no effect: this mpirun writes no time before a line");
    }
    HVD_TRY_ASSIGN(job.extra_arguments, shell_words("--mpi-args", options_.mpi_args));
    if (options_.binding_args) {
      HVD_TRY_ASSIGN(job.binding, shell_words("--binding-args", options_.binding_args));
    }
    for (const auto& [name, value] : environment_) {
      if (is_variable_name(name)) job.variables.push_back(name);
    }
    job.variables.insert(job.variables.end(), {"HOROVOD_RENDEZVOUS", "_HOROVOD_SECRET_KEY"});
    HVD_TRY_ASSIGN(MpirunCommand command, mpirun_command(job));
    ProgramLaunch launch = program_launch(resources);
    launch.arguments = std::move(command.arguments);
    launch.environment.merge(command.environment);
    return Action(std::move(launch));
  }

  // Without --binding-args a rank file places the ranks. The file needs the resources of a node.
  Result<Action> jsrun(const Resources& resources) const {
    JsrunJob job{.command = command_, .output = options_.output_filename.value_or("")};
    HVD_TRY_ASSIGN(job.mpi_arguments, shell_words("--mpi-args", options_.mpi_args));
    if (options_.tcp.value_or(false)) job.mpi_arguments.insert(job.mpi_arguments.begin(), "-tcp");
    ProgramLaunch launch = program_launch(resources);
    if (options_.binding_args) {
      HVD_TRY_ASSIGN(job.binding, shell_words("--binding-args", options_.binding_args));
    } else {
      HVD_TRY_ASSIGN(const NodeResources node, node_resources(resources));
      HVD_TRY_ASSIGN(std::string text, jsrun_rank_file(resources.hosts, resources.num_proc, node));
      launch.file = ArgumentFile{std::move(text), kRankFileArgument};
    }
    launch.arguments = jsrun_command(job);
    return Action(std::move(launch));
  }

  Result<NodeResources> node_resources(const Resources& resources) const {
    Allocation allocation;
    if (resources.allocation) {
      allocation = *resources.allocation;
    } else {
      HVD_TRY_ASSIGN(allocation, lsf_allocation(system_));
    }
    if (allocation.node) return *allocation.node;
    return invalid_argument(
        "--jsrun cannot tell the cores and GPUs of a host, because CSM_ALLOCATION_ID is not set: "
        "use --binding-args to place the ranks");
  }

  // Elastic jobs ---------------------------------------------------------------------------------

  bool is_elastic() const { return options_.min_num_proc || options_.discovery_script; }

  Result<Action> elastic() {
    if (options_.use_mpi || options_.use_jsrun) {
      return invalid_argument(
          fmt::format("horovodrun itself starts the ranks of an elastic job: leave {} out",
                      options_.use_mpi ? "--mpi" : "--jsrun"));
    }
    if (!options_.num_proc && !options_.min_num_proc) return missing_num_proc();
    warn_of_mpi_flags();
    ElasticLaunch elastic;
    elastic.launch = native_launch();
    elastic.num_proc = options_.num_proc ? *options_.num_proc : *options_.min_num_proc;
    elastic.min_num_proc = options_.min_num_proc.value_or(elastic.num_proc);
    elastic.max_num_proc = options_.max_num_proc;
    elastic.slots_per_host = options_.slots_per_host;
    elastic.reset_limit = options_.reset_limit;
    elastic.timeout = options_.elastic_timeout ? std::chrono::seconds(*options_.elastic_timeout)
                                               : whole_seconds(config_.elastic_timeout);
    if (options_.cooldown_range) {
      const auto [least, most] = *options_.cooldown_range;
      elastic.cooldown = {std::chrono::seconds(least), std::chrono::seconds(most)};
    }
    HVD_TRY(check_sizes(elastic));
    HVD_TRY(find_elastic_hosts(elastic));
    return Action(std::move(elastic));
  }

  // min <= num_proc <= max.
  static Status check_sizes(const ElasticLaunch& elastic) {
    if (elastic.min_num_proc > elastic.num_proc) {
      return invalid_argument(
          fmt::format("--min-np {} is above -np {}", elastic.min_num_proc, elastic.num_proc));
    }
    if (elastic.max_num_proc.value_or(elastic.num_proc) < elastic.num_proc) {
      return invalid_argument(
          fmt::format("--max-np {} is below -np {}", *elastic.max_num_proc, elastic.num_proc));
    }
    return Status::ok();
  }

  // With a discovery script the hosts are found when the job runs; only the script is checked here.
  Status find_elastic_hosts(ElasticLaunch& elastic) const {
    if (options_.discovery_script) {
      elastic.discovery_script = *options_.discovery_script;
      HVD_TRY_ASSIGN(const auto words,
                     shell_words("--host-discovery-script", options_.discovery_script));
      const bool path = words[0].find('/') != std::string::npos;
      if (path && access(words[0].c_str(), X_OK) != 0) {
        return io_error(words[0], errno).with_context("--host-discovery-script");
      }
      return Status::ok();
    }
    HVD_TRY_ASSIGN(elastic.hosts, given_hosts());
    if (elastic.hosts.empty()) {
      HVD_TRY_ASSIGN(auto allocation, find_allocation(system_));
      if (allocation) elastic.hosts = std::move(allocation->hosts);
    }
    if (elastic.hosts.size() < 2) {
      return invalid_argument(
          "an elastic job needs two hosts or more, as in -H h1:4,h2:4, or a "
          "--host-discovery-script");
    }
    return assign_slots(elastic.hosts, elastic.min_num_proc).status();
  }

  // Other ----------------------------------------------------------------------------------------

  // Uses the same hosts and shell as a job would. -np has an effect only if there is no list of
  // hosts: it is then the number of slots of this machine.
  Result<Action> doctor() const {
    Doctor doctor;
    HVD_TRY_ASSIGN(doctor.hosts, given_hosts());
    if (doctor.hosts.empty()) {
      HVD_TRY_ASSIGN(auto allocation, find_allocation(system_));
      if (allocation) doctor.hosts = std::move(allocation->hosts);
    }
    if (doctor.hosts.empty()) doctor.hosts = {{"localhost", options_.num_proc.value_or(1)}};
    doctor.shell = shell_;
    doctor.interfaces = options_.interfaces;
    doctor.start_timeout = start_timeout();
    doctor.tls = config_.tls;
    doctor.verbose = verbose();
    return Action(std::move(doctor));
  }

  // Warns about flags of the command line only: a config file often contains settings of autotune
  // without turning it on.
  void warn_of_flags_without_effect() {
    const std::string_view elastic_section = flag_named("--min-np").section;
    for (const Flag& flag : flags()) {
      if (!is_set(flag, given_)) continue;
      if (!has_effect(flag, options_)) {
        warn(fmt::format("{} has no effect without {}", name_of(flag), flag.extras.needs));
      } else if (flag.section == elastic_section && !is_elastic()) {
        warn(
            fmt::format("{} has no effect: the job is elastic only with --min-np or "
                        "--host-discovery-script",
                        name_of(flag)));
      }
    }
  }

  void warn_of_mpi_flags() {
    for (const char* name : {"--mpi-args", "--binding-args"}) {
      if (is_set(flag_named(name), options_)) {
        warn(fmt::format("{} has no effect without --mpi or --jsrun", name));
      }
    }
  }

  void warn(std::string text) { plan_.warnings.push_back(std::move(text)); }

  const Options given_;  // from the command line
  Options options_;      // from the command line and the config file
  const std::vector<std::string> command_;
  const SystemInfo& system_;
  Plan plan_;
  Environment environment_;  // of every rank
  Config config_;
  RemoteShell shell_;
};

}  // namespace

Result<Plan> make_plan(const std::vector<std::string>& arguments, const SystemInfo& system) {
  HVD_TRY_ASSIGN(CommandLine line, parse_command_line(arguments));
  const Options& options = line.options;
  Plan plan;
  if (options.help) {
    plan.action = PrintText{help_text()};
  } else if (options.version) {
    plan.action = PrintText{version() + "\n"};
  } else if (options.check_build) {
    const BuildFacts facts = find_build_facts(system);
    plan.action = PrintText{check_build_text(facts, options.verbose.value_or(false))};
  } else {
    return Planner(std::move(line), system).make();
  }
  return plan;
}

}  // namespace hvd::launcher
