// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "launcher/plan/flags.h"
#include "launcher/plan/help.h"
#include "launcher/plan/text.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using Words = std::vector<std::string>;

// A system without programs, files and variables; tests add what they need.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    system_.directory = "/home/me";
    system_.environment = {{"PATH", "/bin"}};
    system_.output_of = [this](const Words& command) -> Result<std::string> {
      const auto found = programs_.find(command[0]);
      if (found == programs_.end()) return not_found("there is no program " + command[0]);
      return found->second;
    };
    system_.has_library = [](const std::string&) { return false; };
  }

  ~PlanTest() override {
    for (const std::string& path : files_) unlink(path.c_str());
  }

  std::string file(const std::string& text) {
    files_.push_back(::testing::TempDir() + "plan." + std::to_string(getpid()) + "." +
                     std::to_string(files_.size()));
    std::ofstream(files_.back()) << text;
    return files_.back();
  }

  Plan plan(const std::string& line) {
    auto result = make_plan(*split_like_shell(line), system_);
    EXPECT_OK(result);
    return result.is_ok() ? *std::move(result) : Plan{};
  }

  template <typename T>
  T action(const std::string& line) {
    Plan result = plan(line);
    EXPECT_TRUE(std::holds_alternative<T>(result.action)) << line;
    return std::holds_alternative<T>(result.action) ? std::get<T>(std::move(result.action)) : T{};
  }

  std::string complaint(const std::string& line) {
    const auto result = make_plan(*split_like_shell(line), system_);
    EXPECT_FALSE(result.is_ok()) << line;
    return result.status().message();
  }

  static std::string hosts_of(const Launch& launch) {
    std::vector<HostSlots> hosts;
    for (const Slot& slot : launch.slots) add_host(hosts, slot.host, 1);
    return to_string(hosts);
  }

  SystemInfo system_;
  std::map<std::string, std::string> programs_;

 private:
  std::vector<std::string> files_;
};

TEST_F(PlanTest, ALocalJobNeedsOnlyNumberAndCommand) {
  const auto launch = action<Launch>("-np 2 python train.py --lr 0.1");
  EXPECT_THAT(launch.command, ElementsAre("python", "train.py", "--lr", "0.1"));
  EXPECT_EQ(hosts_of(launch), "localhost:2");
  EXPECT_EQ(launch.directory, "/home/me");
  EXPECT_EQ(launch.shell.program, "ssh");
  EXPECT_EQ(launch.start_timeout, std::chrono::seconds(30));
  EXPECT_FALSE(launch.tls);
  EXPECT_EQ(launch.environment, (Environment{{"PATH", "/bin"},
                                             {"PYTHONUNBUFFERED", "1"},
                                             {"HOROVOD_CONTROLLER", "gloo"},
                                             {"HOROVOD_CPU_OPERATIONS", "gloo"}}));
}

TEST_F(PlanTest, EveryFlagOfTheJobArrives) {
  const std::string key = file("key");
  const auto launch = action<Launch>(
      "-np 3 -H a:2,b:2 -p 2222 -i " + key +
      " --ssh-args '-o \"A=b c\"' --network-interfaces eth0,eth1 --output-filename out "
      "-prefix-timestamp --verbose --start-timeout 5 --cycle-time-ms 2 true");
  EXPECT_EQ(hosts_of(launch), "a:2,b:1") << "exactly as many as were asked for";
  EXPECT_EQ(launch.shell.port, 2222);
  EXPECT_EQ(launch.shell.identity_file, key);
  EXPECT_THAT(launch.shell.arguments, ElementsAre("-o", "A=b c"));
  EXPECT_THAT(launch.interfaces, ElementsAre("eth0", "eth1"));
  EXPECT_EQ(launch.output.directory, "out");
  EXPECT_TRUE(launch.output.timestamps);
  EXPECT_TRUE(launch.verbose);
  EXPECT_EQ(launch.start_timeout, std::chrono::seconds(5));
  EXPECT_THAT(launch.environment, Contains(Pair("HOROVOD_CYCLE_TIME", "2")));
}

TEST_F(PlanTest, AFlagWinsOverTheConfigFileAndThatOverTheEnvironment) {
  system_.environment["HOROVOD_CYCLE_TIME"] = "1";
  system_.environment["HOROVOD_CACHE_CAPACITY"] = "1";
  system_.environment["HOROVOD_FUSION_THRESHOLD"] = "1";
  const std::string config = file("params: {cycle_time_ms: 2, cache_capacity: 2}\nodd: 1\n");
  const std::string line = "--cycle-time-ms 3 -np 1 --config-file " + config + " true";
  EXPECT_THAT(action<Launch>(line).environment,
              AllOf(Contains(Pair("HOROVOD_CYCLE_TIME", "3")),
                    Contains(Pair("HOROVOD_CACHE_CAPACITY", "2")),
                    Contains(Pair("HOROVOD_FUSION_THRESHOLD", "1"))));
  EXPECT_THAT(plan(line).warnings, ElementsAre(config + ":2: odd: there is no such key; it is "
                                                        "ignored"));
}

TEST_F(PlanTest, SettingsOfTheEnvironmentAreUsed) {
  system_.environment["HOROVOD_START_TIMEOUT"] = "7";
  system_.environment["HOROVOD_TLS"] = "1";
  const auto launch = action<Launch>("-np 1 true");
  EXPECT_EQ(launch.start_timeout, std::chrono::seconds(7));
  EXPECT_TRUE(launch.tls);
  EXPECT_EQ(plan("-np 1 --log-level INFO true").log_level, LogLevel::kInfo);
}

TEST_F(PlanTest, ErrorsAreReportedBeforeAnythingStarts) {
  system_.environment["HOME"] = "/nowhere";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"", "there is no command to run, as in horovodrun -np 4 python train.py"},
      {"-np 2", "there is no command to run, as in horovodrun -np 4 python train.py"},
      {"true", "-np is missing: how many processes? as in horovodrun -np 4 python train.py"},
      {"-H h:1 true", "-np is missing: how many processes? as in horovodrun -np 4 python train.py"},
      {"-np 2 -H h true", "-H: \"h\": accepted is host:slots, as in h1:4,h2:4 or [::1]:4"},
      {"-np 2 -H h:1 true",
       "Requested more processes (2) than there are slots (1 in h:1): lower -np or add slots"},
      {"-np 2 --hostfile /nowhere true", "--hostfile: /nowhere: No such file or directory"},
      {"-np 2 --config-file /nowhere true", "--config-file: /nowhere: No such file or directory"},
      {"-np 2 -i /nowhere true", "--ssh-identity-file: /nowhere: No such file or directory"},
      {"-np 2 --ssh-args \"'\" true", "--ssh-args: \"'\": a quote (') is left open"},
      {"-np 2 --jsrun true", "--jsrun works on LSF clusters only, and LSB_JOBID is not set"},
      {"-np 2 --mpi true",
       "--mpi needs Open MPI, Spectrum MPI, MPICH or Intel MPI; without it horovodrun starts the "
       "ranks itself: there is no program mpirun"},
  };
  for (const auto& [line, message] : mistakes) EXPECT_EQ(complaint(line), message);
  system_.environment["HOROVOD_FUSION_THRESHOLD"] = "64MB";
  EXPECT_EQ(complaint("-np 1 true"),
            "HOROVOD_FUSION_THRESHOLD=\"64MB\": accepted is bytes, from 0");
}

TEST_F(PlanTest, FlagsWithoutEffectAreWarnedOf) {
  EXPECT_THAT(plan("-np 1 --autotune-log-file l --max-np 4 --mpi-args=x true").warnings,
              ElementsAre("--max-np has no effect: the job is elastic only with --min-np or "
                          "--host-discovery-script",
                          "--autotune-log-file has no effect without --autotune",
                          "--mpi-args has no effect without --mpi or --jsrun"));
  EXPECT_THAT(plan("-np 1 --config-file " + file("autotune: {log_file: l}") + " true").warnings,
              IsEmpty());
  programs_["mpirun"] = "HYDRA build details:";
  EXPECT_THAT(plan("--mpi -np 1 -prefix-timestamp true").warnings,
              ElementsAre(HasSubstr("-prefix-timestamp has no effect")));
  programs_["mpirun"] = "mpirun (Open MPI) 4.1.4";
  EXPECT_THAT(plan("--mpi -np 1 -prefix-timestamp true").warnings, IsEmpty());
}

TEST_F(PlanTest, ASchedulersHostsAreTheDefault) {
  system_.environment["SLURM_JOB_NODELIST"] = "n[1-2]";
  system_.environment["SLURM_TASKS_PER_NODE"] = "2(x2)";
  EXPECT_EQ(hosts_of(action<Launch>("true")), "n1:2,n2:2");
  EXPECT_EQ(hosts_of(action<Launch>("-np 3 true")), "n1:2,n2:1");
  EXPECT_EQ(hosts_of(action<Launch>("-np 1 -H h:1 true")), "h:1");
  EXPECT_EQ(hosts_of(action<Launch>("-np 1 --hostfile " + file("h2\n") + " true")), "h2:1");
  EXPECT_THAT(complaint("-np 5 true"), AllOf(HasSubstr("Slurm has allocated fewer slots"),
                                             HasSubstr("Requested more processes (5)")));
  system_.environment["SLURM_JOB_NODELIST"] = "n1";
  system_.environment["SLURM_TASKS_PER_NODE"] = "1";
  EXPECT_EQ(hosts_of(action<Launch>("-np 4 true")), "n1:4") << "a host alone takes any number";
}

TEST_F(PlanTest, KubernetesReplacesSshAndNamesTheHosts) {
  system_.environment["OMPI_MCA_plm_rsh_agent"] = "/etc/mpi/kubexec.sh";
  system_.environment["OMPI_MCA_orte_default_hostfile"] = file("w-0 slots=1\nw-1 slots=1\n");
  const auto launch = action<Launch>("-np 2 true");
  EXPECT_EQ(launch.shell.program, "/etc/mpi/kubexec.sh");
  EXPECT_EQ(hosts_of(launch), "w-0:1,w-1:1");
}

TEST_F(PlanTest, MpirunGetsNamesOfVariablesAndNoSecret) {
  programs_["mpirun"] = "mpirun (Open MPI) 4.1.4";
  system_.environment["_HOROVOD_SECRET_KEY"] = "hush";
  system_.environment["CUDA_VISIBLE_DEVICES"] = "1";
  system_.environment["HOROVOD_RANK"] = "3";
  system_.environment["odd-name"] = "x";
  const auto launch =
      action<ProgramLaunch>("--mpi -np 2 -H a:1,b:1 --mpi-args='-x NCCL_DEBUG' --tcp true");
  EXPECT_EQ(join(launch.arguments, " "),
            "mpirun --allow-run-as-root --tag-output -np 2 -H a:1,b:1 -bind-to none -map-by slot "
            "-mca pml ob1 -mca btl ^openib -x NCCL_IB_DISABLE -x PATH -x PYTHONUNBUFFERED -x "
            "HOROVOD_RENDEZVOUS -x _HOROVOD_SECRET_KEY -x NCCL_DEBUG true");
  EXPECT_EQ(launch.environment, (Environment{{"PATH", "/bin"},
                                             {"CUDA_VISIBLE_DEVICES", "1"},
                                             {"odd-name", "x"},
                                             {"NCCL_IB_DISABLE", "1"},
                                             {"PYTHONUNBUFFERED", "1"}}));
  EXPECT_EQ(to_string(launch.hosts), "a:1,b:1");
  EXPECT_THAT(complaint("--mpi -np 3 -H a:1,b:1 true"), HasSubstr("Requested more processes"));
  EXPECT_EQ(action<ProgramLaunch>("-np 1 --config-file " + file("controller: mpi") + " true")
                .arguments[0],
            "mpirun");
}

TEST_F(PlanTest, OnAnLsfClusterJsrunIsTheDefaultWhereItIsInstalled) {
  system_.environment["LSB_JOBID"] = "7";
  system_.environment["CSM_ALLOCATION_ID"] = "5";
  programs_["csm_allocation_query"] = "compute_nodes:\n - c1\n - c2\n";
  programs_["csm_node_attributes_query"] = "discovered_cores: 4\ndiscovered_gpus: 2\n";
  EXPECT_EQ(hosts_of(action<Launch>("true")), "c1:2,c2:2");
  programs_["jsrun"] = "";
  const auto launch = action<ProgramLaunch>("--tcp true");
  ASSERT_TRUE(launch.file);
  EXPECT_THAT(launch.file->text, HasSubstr("rank: 3: { hostname: c2; cpu: {2-3} ;"));
  EXPECT_EQ(launch.arguments[launch.file->argument - 1], "--erf_input");
  EXPECT_EQ(action<Launch>("--gloo true").slots.size(), 4U);
  EXPECT_FALSE(action<ProgramLaunch>("--jsrun --binding-args='-n 4' true").file);
  system_.environment.erase("CSM_ALLOCATION_ID");
  system_.environment["LSB_MCPU_HOSTS"] = "c1 2";
  EXPECT_THAT(complaint("--jsrun true"), HasSubstr("--binding-args"));
}

TEST_F(PlanTest, ElasticJobsAreReadWhole) {
  const std::string script = file("#!/bin/sh\n");
  chmod(script.c_str(), 0700);
  const auto elastic = action<ElasticLaunch>(
      "-np 4 --min-np 2 --max-np 8 --host-discovery-script " + script +
      " --slots 3 --elastic-timeout 50 --reset-limit 6 --blacklist-cooldown-range 1 9 true");
  EXPECT_EQ(elastic.num_proc, 4);
  EXPECT_EQ(elastic.min_num_proc, 2);
  EXPECT_EQ(elastic.max_num_proc, 8);
  EXPECT_EQ(elastic.discovery_script, script);
  EXPECT_EQ(elastic.slots_per_host, 3);
  EXPECT_EQ(elastic.timeout, std::chrono::seconds(50));
  EXPECT_EQ(elastic.reset_limit, 6);
  EXPECT_EQ(elastic.cooldown->least, std::chrono::seconds(1));
  EXPECT_EQ(elastic.cooldown->most, std::chrono::seconds(9));
  EXPECT_THAT(elastic.launch.command, ElementsAre("true"));
  EXPECT_THAT(elastic.launch.slots, IsEmpty());

  system_.environment["HOROVOD_ELASTIC_TIMEOUT"] = "8";
  const auto fixed = action<ElasticLaunch>("--min-np 2 -H a:1,b:1 true");
  EXPECT_EQ(fixed.num_proc, 2) << "the least is the default";
  EXPECT_EQ(to_string(fixed.hosts), "a:1,b:1");
  EXPECT_EQ(fixed.timeout, std::chrono::seconds(8));
  EXPECT_EQ(fixed.max_num_proc, std::nullopt);
  EXPECT_EQ(action<ElasticLaunch>("-np 3 --host-discovery-script s true").min_num_proc, 3);
}

TEST_F(PlanTest, ImpossibleElasticJobsAreRejected) {
  const std::string script = file("no program");
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"-np 2 --min-np 3 -H a:2,b:2 true", "--min-np 3 is above -np 2"},
      {"-np 4 --min-np 3 --max-np 3 -H a:2,b:2 true", "--max-np 3 is below -np 4"},
      {"-np 2 --min-np 1 -H a:4 true",
       "an elastic job needs two hosts or more, as in -H h1:4,h2:4, or a "
       "--host-discovery-script"},
      {"-np 2 --min-np 1 true",
       "an elastic job needs two hosts or more, as in -H h1:4,h2:4, or a "
       "--host-discovery-script"},
      {"-np 9 --min-np 5 -H a:2,b:2 true",
       "Requested more processes (5) than there are slots (4 in a:2,b:2): lower -np or add slots"},
      {"--host-discovery-script s true",
       "-np is missing: how many processes? as in horovodrun -np 4 python train.py"},
      {"-np 2 --host-discovery-script " + script + " true",
       "--host-discovery-script: " + script + ": Permission denied"},
      {"-np 2 --mpi --min-np 1 -H a:2,b:2 true",
       "horovodrun itself starts the ranks of an elastic job: leave --mpi out"},
  };
  for (const auto& [line, message] : mistakes) EXPECT_EQ(complaint(line), message);
}

TEST_F(PlanTest, TheDoctorNeedsNeitherCommandNorNumber) {
  EXPECT_EQ(to_string(action<Doctor>("--doctor").hosts), "localhost:1");
  const auto doctor = action<Doctor>("--doctor -H a:2,b:2 -p 22");
  EXPECT_EQ(to_string(doctor.hosts), "a:2,b:2");
  EXPECT_EQ(doctor.shell.port, 22);
}

TEST_F(PlanTest, CheckBuildMarksWhatIsAvailable) {
  EXPECT_EQ(action<PrintText>("--check-build").text,
            "Horovod v" HVD_VERSION
            ":\n\n"
            "Available Frameworks:\n    [ ] TensorFlow\n    [ ] PyTorch\n    [ ] MXNet\n\n"
            "Available Controllers:\n    [ ] MPI\n    [X] Gloo\n\n"
            "Available Tensor Operations:\n"
            "    [ ] NCCL\n    [ ] DDL\n    [ ] CCL\n    [ ] MPI\n    [X] Gloo\n");
  programs_["python"] = "torch mxnet\n";
  system_.own_program = "/venv/bin/horovodrun";
  programs_["mpirun"] = "mpirun (Open MPI) 4.1.4";
  system_.has_library = [](const std::string& name) { return name == "libnccl.so.2"; };
  EXPECT_EQ(action<PrintText>("--verbose -cb").text,
            "\nHorovod v" HVD_VERSION
            ":\n\n"
            "Available Frameworks:\n    [ ] TensorFlow\n    [X] PyTorch\n    [X] MXNet\n\n"
            "Available Controllers:\n    [X] MPI\n    [X] Gloo\n\n"
            "Available Tensor Operations:\n"
            "    [X] NCCL\n    [ ] DDL\n    [ ] CCL\n    [X] MPI\n    [X] Gloo\n");
  programs_["/venv/bin/python3"] = "tensorflow\n";
  EXPECT_THAT(action<PrintText>("-cb").text, HasSubstr("[X] TensorFlow\n    [ ] PyTorch"))
      << "the Python in the directory of horovodrun is tried first";
}

TEST_F(PlanTest, VersionAndHelpAreText) {
  EXPECT_EQ(action<PrintText>("--version").text, HVD_VERSION "\n");
  const std::string help = action<PrintText>("-h").text;
  for (const Flag& flag : flags()) EXPECT_THAT(help, HasSubstr(std::string(flag.names)));
  for (const std::string_view line : split(help, '\n')) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_THAT(help, Not(HasSubstr("--log-hide-timestamp"))) << "older names are not shown";
}

TEST(Documentation, TheTablesOfFlagsAreCurrent) {
  const auto page = read_file(HVD_SOURCE_DIR "/docs/horovodrun.md");
  ASSERT_OK(page);
  const auto written = with_flag_tables(*page);
  ASSERT_OK(written);
  EXPECT_EQ(*page, *written) << "run `make docs`";
}

}  // namespace
}  // namespace hvd::launcher
