// SPDX-License-Identifier: Apache-2.0
// The command line of mpirun, for each of the implementations that Horovod jobs are started with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/launch.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

enum class MpiImplementation { kOpenMpi, kSpectrum, kMpich, kIntel };

// From what `mpirun --version` says.
Result<MpiImplementation> recognise_mpi(std::string_view version_text);
// Whether its mpirun is hydra, MPICH's.
bool is_hydra(MpiImplementation implementation);

struct MpirunJob {
  MpiImplementation implementation = MpiImplementation::kOpenMpi;
  int num_proc = 1;
  std::vector<HostSlots> hosts;
  std::vector<std::string> command;
  // Passed on to the ranks by name, so that no value is seen in the list of processes.
  std::vector<std::string> variables;
  RemoteShell shell;
  OutputOptions output;
  std::vector<std::string> interfaces;
  std::optional<std::vector<std::string>> binding;  // in place of the default
  std::vector<std::string> extra_arguments;         // the user's own arguments
  bool tcp = false;
};

struct MpirunCommand {
  std::vector<std::string> arguments;
  Environment environment;  // what mpirun itself has to find there
};

// Fails when this implementation cannot do what is asked for.
Result<MpirunCommand> mpirun_command(const MpirunJob& job);

}  // namespace hvd::launcher
