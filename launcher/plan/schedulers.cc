// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/schedulers.h"

#include "launcher/plan/lsf.h"
#include "launcher/plan/slurm.h"

namespace hvd::launcher {
namespace {

// The MPI operator of Kubernetes sets it for Open MPI.
constexpr char kHostFile[] = "OMPI_MCA_orte_default_hostfile";

Result<Allocation> kubernetes_allocation(const std::string& path) {
  HVD_TRY_ASSIGN(const std::string text, read_file(path));
  Allocation allocation{.scheduler = "Kubernetes"};
  HVD_TRY_ASSIGN(allocation.hosts, parse_host_file(text, path));
  allocation.num_proc = slots_of(allocation.hosts);
  return allocation;
}

// An allocation that exists, as the result of find_allocation().
Result<std::optional<Allocation>> found(const Result<Allocation>& allocation) {
  if (!allocation.is_ok()) return allocation.status();
  return std::optional(*allocation);
}

}  // namespace

Result<std::optional<Allocation>> find_allocation(const SystemInfo& system) {
  if (is_under_lsf(system)) return found(lsf_allocation(system));
  if (!system.variable("SLURM_JOB_NODELIST").empty()) {
    return found(slurm_allocation(system));
  }
  if (const std::string path = system.variable(kHostFile); !path.empty()) {
    auto allocation = found(kubernetes_allocation(path));
    if (!allocation.is_ok()) return allocation.status().with_context(kHostFile);
    return allocation;
  }
  return std::optional<Allocation>();
}

std::optional<std::string> kubernetes_shell(const SystemInfo& system) {
  const std::string program = system.variable("OMPI_MCA_plm_rsh_agent");
  if (program != "kubexec.sh" && !program.ends_with("/kubexec.sh")) return std::nullopt;
  return program;
}

}  // namespace hvd::launcher
