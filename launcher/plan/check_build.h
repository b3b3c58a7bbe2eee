// SPDX-License-Identifier: Apache-2.0
// The output of --check-build. All facts are found at run time: frameworks by the Python next to
// horovodrun or `python3` of PATH, MPI by running mpirun, NCCL by the dynamic linker.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/system_info.h"

namespace hvd::launcher {

struct BuildFacts {
  bool tensorflow = false;
  bool torch = false;
  bool mxnet = false;
  bool mpi = false;
  bool nccl = false;
};

// Starts Python and mpirun; each may take up to 5 s. Never fails: what is not found is false.
BuildFacts find_build_facts(const SystemInfo& system);

// Three blocks of check boxes. `verbose` adds a blank line before them, as in Horovod 0.28, whose
// output scripts parse.
std::string check_build_text(const BuildFacts& facts, bool verbose);

std::string version();

}  // namespace hvd::launcher
