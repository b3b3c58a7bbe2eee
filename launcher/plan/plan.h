// SPDX-License-Identifier: Apache-2.0
// What horovodrun is to do: the command line, the config file, the environment and the scheduler
// that it runs under, checked and put together. Nothing of the job is started here, so whatever is
// wrong is found before there is anything to clean up; a failure is the user's to mend and ends
// horovodrun with exit code 2.
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

// Help, version, what is built in: goes to standard output, and horovodrun ends with 0.
struct PrintText {
  std::string text;
};

// Looks at the machine and the hosts, starts no job.
struct Doctor {
  std::vector<HostSlots> hosts;
  RemoteShell shell;
  std::vector<std::string> interfaces;  // empty: all
  std::chrono::seconds start_timeout{30};
  bool tls = false;
  bool verbose = false;
};

// A file that `arguments` needs: written to a place of its own before the program is started, its
// path takes the place of arguments[argument].
struct ArgumentFile {
  std::string text;
  size_t argument = 0;
};

// mpirun or jsrun starts the ranks and shows what they say. horovodrun is its parent, serves the
// rendezvous until it ends, and ends with its exit code. HOROVOD_RENDEZVOUS and _HOROVOD_SECRET_KEY
// are added to `environment`: `arguments` names them already, and never says what they hold.
struct ProgramLaunch {
  std::vector<std::string> arguments;  // the first is the program
  std::optional<ArgumentFile> file;
  Environment environment;  // the program's, all of it
  std::string directory;
  std::vector<std::string> interfaces;  // empty: all
  std::vector<HostSlots> hosts;         // that the program will start ranks on
  bool tls = false;
  bool verbose = false;
};

// A job whose hosts come and go.
struct ElasticLaunch {
  Launch launch;  // without slots
  int num_proc = 1;
  int min_num_proc = 1;
  std::optional<int> max_num_proc;  // none: as many as there are slots
  std::string discovery_script;     // empty: `hosts` are all there will ever be
  std::vector<HostSlots> hosts;
  std::optional<int> slots_per_host;  // of hosts that the script lists without
  std::chrono::seconds timeout{600};  // for enough slots
  std::optional<int> reset_limit;
  struct Cooldown {
    std::chrono::seconds least;
    std::chrono::seconds most;
  };
  std::optional<Cooldown> cooldown;  // none: a host that failed stays out for good
};

using Action = std::variant<PrintText, Doctor, Launch, ProgramLaunch, ElasticLaunch>;

struct Plan {
  Action action;
  // Accepted, but not what its author hopes.
  std::vector<std::string> warnings;
  // For horovodrun's own log.
  LogLevel log_level = LogLevel::kWarning;
  bool log_hide_time = false;
};

// `arguments` are argv without the program's name.
Result<Plan> make_plan(const std::vector<std::string>& arguments, const SystemInfo& system);

}  // namespace hvd::launcher
