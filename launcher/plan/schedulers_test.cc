// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/schedulers.h"

#include <unistd.h>

#include <fstream>

#include "launcher/plan/lsf.h"
#include "launcher/plan/slurm.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Answers = std::map<std::vector<std::string>, std::string>;

// A SystemInfo with these variables and these programs.
SystemInfo with(Environment environment, Answers answers = {}) {
  SystemInfo system{.environment = std::move(environment)};
  system.output_of = [answers = std::move(answers)](const auto& command) -> Result<std::string> {
    const auto found = answers.find(command);
    if (found == answers.end()) return not_found("there is no program " + command[0]);
    return found->second;
  };
  return system;
}

std::string hosts(const SystemInfo& system) {
  const auto allocation = find_allocation(system);
  EXPECT_OK(allocation);
  if (!allocation.is_ok() || !*allocation) return "none";
  return to_string((*allocation)->hosts) + " for " + std::to_string((*allocation)->num_proc);
}

std::string complaint(const SystemInfo& system) {
  const auto allocation = find_allocation(system);
  EXPECT_CODE(StatusCode::kInvalidArgument, allocation);
  return allocation.status().message();
}

class File {
 public:
  explicit File(const std::string& text)
      : path_(::testing::TempDir() + "hosts." + std::to_string(getpid())) {
    std::ofstream(path_) << text;
  }
  ~File() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Slurm, NodeListsAreExpanded) {
  EXPECT_THAT(*expand_node_list("n1"), ElementsAre("n1"));
  EXPECT_THAT(*expand_node_list("n[08-10,7],gpu-a,r[1-2]n[3,5]x"),
              ElementsAre("n08", "n09", "n10", "n7", "gpu-a", "r1n3x", "r1n5x", "r2n3x", "r2n5x"));
  for (const char* bad : {"", "n[1-", "n[]", "n[a-b]", "n[3-1]", "n[1-999999999]", "n1,,n2", "-x",
                          "a[1-999][1-999][1-999]"}) {
    EXPECT_FALSE(expand_node_list(bad).is_ok()) << bad;
  }
}

TEST(Slurm, TaskCountsAreExpanded) {
  EXPECT_THAT(*expand_task_counts("4(x2),3"), ElementsAre(4, 4, 3));
  for (const char* bad : {"", "x", "4(x", "4(x)", "4(x2),", "-1", "1(x999999999)"}) {
    EXPECT_FALSE(expand_task_counts(bad).is_ok()) << bad;
  }
}

TEST(Slurm, AnAllocationGivesHostsSlotsAndTheNumberOfProcesses) {
  Environment slurm = {{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "4(x2),3"}};
  EXPECT_EQ(hosts(with(slurm)), "n1:4,n2:4,n3:3 for 11");
  slurm["SLURM_NTASKS"] = "10";
  EXPECT_EQ(hosts(with(slurm)), "n1:4,n2:4,n3:3 for 10");
  EXPECT_EQ(hosts(with({{"SLURM_JOB_NODELIST", "n[1-2]"}})), "n1:1,n2:1 for 2");
  EXPECT_EQ(hosts(with({})), "none");
}

TEST(Slurm, ContradictingVariablesAreRejected) {
  EXPECT_EQ(complaint(with({{"SLURM_JOB_NODELIST", "n[1-"}})),
            "SLURM_JOB_NODELIST: \"n[1-\": accepted is a list of hosts, as in n[01-16],gpu1");
  EXPECT_EQ(complaint(with({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "many"}})),
            "SLURM_TASKS_PER_NODE: \"many\": accepted is tasks per host, as in 4(x2),3");
  EXPECT_EQ(complaint(with({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "0"}})),
            "SLURM_NTASKS: \"0\": accepted is a whole number from 1");
  EXPECT_EQ(complaint(with({{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "1"}})),
            "SLURM_JOB_NODELIST names 4 hosts, but SLURM_TASKS_PER_NODE=1 describes 1: start "
            "horovodrun from the batch script and not by srun, or give hosts with -H");
}

TEST(Lsf, ItsVariablesGiveHostsAndSlots) {
  EXPECT_EQ(hosts(with({{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "h1 4 h2 2 "}})), "h1:4,h2:2 for 6");
  const File file("h1\nh1\nh2\n");
  EXPECT_EQ(
      hosts(with(
          {{"LSB_JOBID", "7"}, {"LSB_DJOB_HOSTFILE", file.path()}, {"LSB_MCPU_HOSTS", "h9 1"}})),
      "h1:2,h2:1 for 3");
  EXPECT_EQ(complaint(with({{"LSB_JOBID", "7"}, {"LSB_MCPU_HOSTS", "h1 4 h2"}})),
            "LSB_MCPU_HOSTS: \"h1 4 h2\": accepted is hosts and slots, as in h1 4 h2 4");
  EXPECT_THAT(complaint(with({{"LSB_JOBID", "7"}})), HasSubstr("contain no hosts"));
}

constexpr char kAllocation[] =
    "---\nallocation_id: 5\nnum_nodes: 2\ncompute_nodes:\n - c01\n - c02\nstate: running\n...\n";
constexpr char kNode[] =
    "---\nTOTAL_RECORDS: 1\nRECORD_1:\n  node_name: c01\n  discovered_cores: 44\n"
    "  discovered_gpus: 6\n...\n";

TEST(Lsf, ClusterSystemManagementReportsHostsAndGpus) {
  const Environment lsf = {{"LSB_JOBID", "7"}, {"CSM_ALLOCATION_ID", "5"}};
  const Answers answers = {{{"csm_allocation_query", "-a", "5"}, kAllocation},
                           {{"/opt/ibm/csm/bin/csm_node_attributes_query", "-n", "c01"}, kNode},
                           {{"lscpu"}, "Architecture: ppc64le\nThread(s) per core:  4\n"}};
  const auto allocation = lsf_allocation(with(lsf, answers));
  ASSERT_OK(allocation);
  EXPECT_EQ(to_string(allocation->hosts), "c01:6,c02:6");
  EXPECT_EQ(allocation->num_proc, 12);
  EXPECT_EQ(allocation->node->cores, 44);
  EXPECT_EQ(allocation->node->gpus, 6);
  EXPECT_EQ(allocation->node->threads_per_core, 4);

  EXPECT_THAT(lsf_allocation(with(lsf)).status().message(),
              HasSubstr("asking for allocation 5: there is no program"));
}

TEST(Lsf, MalformedAnswersAreRejected) {
  EXPECT_FALSE(parse_compute_nodes("state: done").is_ok());
  EXPECT_FALSE(parse_compute_nodes("compute_nodes:\n - [x]\n").is_ok());
  EXPECT_FALSE(parse_compute_nodes("{").is_ok());
  EXPECT_FALSE(parse_node_attributes("discovered_cores: 44\n").is_ok());
  EXPECT_FALSE(parse_node_attributes("discovered_cores: many\ndiscovered_gpus: 1\n").is_ok());
}

TEST(Kubernetes, TheMpiOperatorsHostFileIsTheDefault) {
  const File file("worker-0.job slots=2\nworker-1.job:2\n");
  EXPECT_EQ(hosts(with({{"OMPI_MCA_orte_default_hostfile", file.path()}})),
            "worker-0.job:2,worker-1.job:2 for 4");
  const auto missing = find_allocation(with({{"OMPI_MCA_orte_default_hostfile", "/nowhere"}}));
  EXPECT_EQ(missing.status().message(),
            "OMPI_MCA_orte_default_hostfile: /nowhere: No such file or directory");
}

TEST(Kubernetes, ItsHelperReplacesSsh) {
  EXPECT_EQ(kubernetes_shell(with({{"OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"}})),
            "/etc/mpi/kubexec.sh");
  EXPECT_EQ(kubernetes_shell(with({{"OMPI_MCA_plm_rsh_agent", "ssh"}})), std::nullopt);
  EXPECT_EQ(kubernetes_shell(with({})), std::nullopt);
}

}  // namespace
}  // namespace hvd::launcher
