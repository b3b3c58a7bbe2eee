// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/mpirun.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// From this number of hosts on, mpirun starts all daemons itself and concurrently, not along a tree
// of hosts.
constexpr size_t kManyHosts = 64;

// Collects the words of a command line.
class Arguments {
 public:
  void add(std::initializer_list<std::string_view> words) {
    list_.insert(list_.end(), words.begin(), words.end());
  }
  void add(const std::vector<std::string>& words) {
    list_.insert(list_.end(), words.begin(), words.end());
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

// "-p 22 -i key", or nothing.
std::string ssh_arguments(const RemoteShell& shell) {
  std::vector<std::string> words;
  if (shell.port) words.insert(words.end(), {"-p", std::to_string(*shell.port)});
  if (!shell.identity_file.empty()) words.insert(words.end(), {"-i", shell.identity_file});
  words.insert(words.end(), shell.arguments.begin(), shell.arguments.end());
  for (std::string& word : words) word = quoted_for_shell(word);
  return join(words, " ");
}

// As in Horovod 0.28. By default Open MPI binds each rank to one core, which all threads of the
// rank would share.
std::vector<std::string> default_binding(MpiImplementation implementation) {
  switch (implementation) {
    case MpiImplementation::kOpenMpi: return {"-bind-to", "none", "-map-by", "slot"};
    case MpiImplementation::kSpectrum:
      return {"-bind-to", "socket", "-map-by", "socket", "-rank-by", "core"};
    case MpiImplementation::kMpich: return {"-bind-to", "none"};
    case MpiImplementation::kIntel: return {};
  }
  return {};
}

// Open MPI and Spectrum MPI, which is based on it.
MpirunCommand open_mpi_command(const MpirunJob& job) {
  Arguments list;
  list.add({"mpirun", "--allow-run-as-root", "--tag-output"});
  if (job.output.timestamps) list.add({"--timestamp-output"});
  list.add({"-np", std::to_string(job.num_proc), "-H", to_string(job.hosts)});
  list.add(job.binding.value_or(default_binding(job.implementation)));
  if (job.implementation == MpiImplementation::kOpenMpi) {
    list.add({"-mca", "pml", "ob1", "-mca", "btl", "^openib"});
  } else if (job.tcp) {
    list.add({"-tcp"});
  }
  if (job.hosts.size() >= kManyHosts) {
    list.add({"-mca", "plm_rsh_no_tree_spawn", "true", "-mca", "plm_rsh_num_concurrent",
              std::to_string(job.hosts.size())});
  }
  if (const std::string ssh = ssh_arguments(job.shell); !ssh.empty()) {
    list.add({"-mca", "plm_rsh_args", ssh});
  }
  if (!job.interfaces.empty()) {
    const std::string interfaces = join(job.interfaces, ",");
    list.add({"-mca", "btl_tcp_if_include", interfaces, "-x", "NCCL_SOCKET_IFNAME=" + interfaces});
  }
  if (!job.output.directory.empty()) list.add({"--output-filename", job.output.directory});
  for (const std::string& name : job.variables) list.add({"-x", name});
  list.add(job.extra_arguments);
  list.add(job.command);
  return {list.take(), {}};
}

// MPICH and Intel MPI. Hydra takes arguments for ssh from its environment only.
Result<MpirunCommand> hydra_command(const MpirunJob& job) {
  const bool intel = job.implementation == MpiImplementation::kIntel;
  const std::string name = intel ? "Intel MPI" : "MPICH";
  std::vector<std::string> hosts;
  for (const HostSlots& host : job.hosts) {
    hosts.push_back(host.name);
    if (host.slots != job.hosts.front().slots) {
      return invalid_argument(fmt::format(
          "{} needs the same number of processes on each host, not {}: give all hosts the "
          "same slots, or leave --mpi out",
          name, to_string(job.hosts)));
    }
  }
  if (job.interfaces.size() > 1) {
    return invalid_argument(
        fmt::format("{} takes one network interface, not {}", name, join(job.interfaces, ",")));
  }
  Arguments list;
  list.add({"mpirun", "-l", "-np", std::to_string(job.num_proc), "-ppn",
            std::to_string(job.hosts.front().slots), "-hosts", join(hosts, ","), "-bootstrap=ssh"});
  list.add(job.binding.value_or(default_binding(job.implementation)));
  if (!job.interfaces.empty()) {
    list.add({"-iface", job.interfaces[0], "-genv", "NCCL_SOCKET_IFNAME", job.interfaces[0]});
  }
  if (!job.output.directory.empty()) list.add({"-outfile-pattern", job.output.directory});
  list.add({"-genvlist", join(job.variables, ",")});
  list.add(job.extra_arguments);
  list.add(job.command);
  MpirunCommand result{list.take(), {}};
  if (const std::string ssh = ssh_arguments(job.shell); !ssh.empty()) {
    result.environment[intel ? "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"
                             : "HYDRA_LAUNCHER_EXTRA_ARGS"] = ssh;
  }
  return result;
}

}  // namespace

Result<MpiImplementation> recognise_mpi(std::string_view version_text) {
  const auto contains = [&](std::string_view word) {
    return version_text.find(word) != std::string_view::npos;
  };
  // Spectrum MPI first: it is based on Open MPI, and its text may name both.
  if (contains("Spectrum MPI")) return MpiImplementation::kSpectrum;
  if (contains("Open MPI") || contains("OpenRTE")) return MpiImplementation::kOpenMpi;
  if (contains("Intel(R) MPI")) return MpiImplementation::kIntel;
  if (contains("MPICH") || contains("HYDRA")) return MpiImplementation::kMpich;
  return invalid_argument(fmt::format(
      "mpirun --version reports \"{}\": supported are Open MPI, Spectrum MPI, MPICH and "
      "Intel MPI; without --mpi horovodrun starts the ranks itself",
      trimmed(version_text.substr(0, version_text.find('\n')))));
}

bool is_hydra(MpiImplementation implementation) {
  return implementation == MpiImplementation::kMpich || implementation == MpiImplementation::kIntel;
}

Result<MpirunCommand> mpirun_command(const MpirunJob& job) {
  if (is_hydra(job.implementation)) return hydra_command(job);
  return open_mpi_command(job);
}

}  // namespace hvd::launcher
