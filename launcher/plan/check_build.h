// SPDX-License-Identifier: Apache-2.0
// What --check-build shows. Nothing here was decided when horovodrun was built: frameworks are
// asked of the Python that `python3` starts, MPI and NCCL are there when they are found.
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

BuildFacts find_build_facts(const SystemInfo& system);

// Three blocks of boxes. `verbose` puts a blank line before them, as scripts expect.
std::string check_build_text(const BuildFacts& facts, bool verbose);

std::string version();

}  // namespace hvd::launcher
