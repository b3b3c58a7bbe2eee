// SPDX-License-Identifier: Apache-2.0
// Decides what horovodrun does: combines and checks the command line, the config file, the
// environment and the allocation of the scheduler. Nothing of the job is started here, so errors
// are found before there is anything to clean up. The user can fix each of these errors, and
// horovodrun exits with code 2.
//
// This Plan is not the plan of the engine, which is a list of responses (ARCHITECTURE.md).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "launcher/launch.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

// --help, --version, --check-build: print to standard output and exit with 0.
struct PrintText {
  std::string text;
};

// --doctor: check this machine and the hosts; starts no job.
struct Doctor {
  std::vector<HostSlots> hosts;
  RemoteShell shell;
  std::vector<std::string> interfaces;  // empty: all
  std::chrono::seconds start_timeout{30};
  bool tls = false;
  bool verbose = false;
};

// A file that the program reads. It is written to a temporary path before the program starts, and
// arguments[argument] is set to that path.
struct ArgumentFile {
  std::string text;
  size_t argument = 0;
};

// A program, mpirun or jsrun, starts the ranks and prints their output. horovodrun is the parent of
// the program, runs the rendezvous server until the program ends, and returns the exit code of the
// program. run_program() adds HOROVOD_RENDEZVOUS and _HOROVOD_SECRET_KEY to `environment`;
// `arguments` contains their names, never their values.
struct ProgramLaunch {
  std::vector<std::string> arguments;  // including the program's name
  std::optional<ArgumentFile> file;
  Environment environment;  // the complete environment of the program
  std::string directory;
  std::vector<std::string> interfaces;  // empty: all
  std::vector<HostSlots> hosts;         // where the program starts ranks
  bool tls = false;
  bool verbose = false;
};

// A job whose set of hosts may change while it runs.
struct ElasticLaunch {
  Launch launch;  // without slots
  int num_proc = 1;
  int min_num_proc = 1;
  std::optional<int> max_num_proc;  // none: the number of slots
  std::string discovery_script;     // empty: `hosts` is fixed
  std::vector<HostSlots> hosts;
  std::optional<int> slots_per_host;  // for hosts listed without slots
  std::chrono::seconds timeout{600};  // to wait for enough slots
  std::optional<int> reset_limit;
  struct Cooldown {
    std::chrono::seconds least;
    std::chrono::seconds most;
  };
  std::optional<Cooldown> cooldown;  // none: a failed host is excluded permanently
};

using Action = std::variant<PrintText, Doctor, Launch, ProgramLaunch, ElasticLaunch>;

struct Plan {
  Action action;
  // For the user: settings that are accepted but have no effect, or not the intended effect.
  std::vector<std::string> warnings;
  // Settings of horovodrun's own log.
  LogLevel log_level = LogLevel::kWarning;
  bool log_hide_time = false;
};

// `arguments` are argv without the program's name. Reads the files that they name and may start
// programs of the system (mpirun --version, queries of LSF).
Result<Plan> make_plan(const std::vector<std::string>& arguments, const SystemInfo& system);

}  // namespace hvd::launcher
