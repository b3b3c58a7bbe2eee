// SPDX-License-Identifier: Apache-2.0
// The command line of mpirun for each supported MPI implementation. Pure.
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

// Recognises the implementation from the output of `mpirun --version`; an error if it is unknown.
Result<MpiImplementation> recognise_mpi(std::string_view version_text);
// Whether its mpirun is Hydra, as in MPICH and Intel MPI.
bool is_hydra(MpiImplementation implementation);

struct MpirunJob {
  MpiImplementation implementation = MpiImplementation::kOpenMpi;
  int num_proc = 1;
  std::vector<HostSlots> hosts;
  std::vector<std::string> command;
  // Names of variables for the ranks. mpirun takes the values from its environment, so that no
  // value (the secret) appears in the list of processes.
  std::vector<std::string> variables;
  RemoteShell shell;
  OutputOptions output;
  std::vector<std::string> interfaces;
  std::optional<std::vector<std::string>> binding;  // replaces the default
  std::vector<std::string> extra_arguments;         // --mpi-args
  bool tcp = false;
};

struct MpirunCommand {
  std::vector<std::string> arguments;
  Environment environment;  // variables for mpirun itself
};

// Fails if the implementation does not support the job: Hydra needs the same slots on each host and
// at most one interface.
Result<MpirunCommand> mpirun_command(const MpirunJob& job);

}  // namespace hvd::launcher
