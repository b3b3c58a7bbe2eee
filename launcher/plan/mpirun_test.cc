// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/mpirun.h"

#include "launcher/plan/jsrun.h"
#include "launcher/plan/text.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::HasSubstr;

using Implementation = MpiImplementation;

MpirunJob small_job(Implementation implementation) {
  return {.implementation = implementation,
          .num_proc = 4,
          .hosts = {{"a", 2}, {"b", 2}},
          .command = {"python", "train.py"},
          .variables = {"PATH", "_HOROVOD_SECRET_KEY"}};
}

std::string line(const MpirunJob& job) {
  const auto command = mpirun_command(job);
  EXPECT_OK(command);
  return command.is_ok() ? join(command->arguments, " ") : "";
}

TEST(Mpirun, ImplementationsAreRecognisedByTheirVersionText) {
  EXPECT_EQ(*recognise_mpi("mpirun (Open MPI) 4.1.4\n\nReport bugs to ..."),
            Implementation::kOpenMpi);
  EXPECT_EQ(*recognise_mpi("OpenRTE 3"), Implementation::kOpenMpi);
  EXPECT_EQ(*recognise_mpi("mpirun (IBM Spectrum MPI) 10.3"), Implementation::kSpectrum);
  EXPECT_EQ(*recognise_mpi("HYDRA build details:\n Version: 4.0"), Implementation::kMpich);
  EXPECT_EQ(*recognise_mpi("Intel(R) MPI Library for Linux* OS, Version 2021 (HYDRA)"),
            Implementation::kIntel);
  EXPECT_THAT(recognise_mpi("toy 1.0\n").status().message(),
              HasSubstr("mpirun --version reports \"toy 1.0\": supported are"));
}

TEST(Mpirun, OpenMpiCommandLine) {
  EXPECT_EQ(line(small_job(Implementation::kOpenMpi)),
            "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to none -map-by slot "
            "-mca pml ob1 -mca btl ^openib -x PATH -x _HOROVOD_SECRET_KEY python train.py");
  MpirunJob job = small_job(Implementation::kOpenMpi);
  job.shell = {.port = 22, .identity_file = "my key", .arguments = {"-v"}};
  job.interfaces = {"eth0", "eth1"};
  job.output = {.directory = "out", .timestamps = true};
  job.binding = {"-bind-to", "core"};
  job.extra_arguments = {"-x", "A"};
  EXPECT_EQ(line(job),
            "mpirun --allow-run-as-root --tag-output --timestamp-output -np 4 -H a:2,b:2 -bind-to "
            "core -mca pml ob1 -mca btl ^openib -mca plm_rsh_args -p 22 -i 'my key' -v -mca "
            "btl_tcp_if_include eth0,eth1 -x NCCL_SOCKET_IFNAME=eth0,eth1 --output-filename out -x "
            "PATH -x _HOROVOD_SECRET_KEY -x A python train.py");
}

TEST(Mpirun, SpectrumMpiCommandLine) {
  MpirunJob job = small_job(Implementation::kSpectrum);
  job.tcp = true;
  EXPECT_EQ(line(job),
            "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to socket -map-by "
            "socket -rank-by core -tcp -x PATH -x _HOROVOD_SECRET_KEY python train.py");
}

TEST(Mpirun, HydraCommandLineAndEnvironment) {
  MpirunJob job = small_job(Implementation::kMpich);
  job.interfaces = {"eth0"};
  job.output.directory = "out";
  job.shell.port = 22;
  EXPECT_EQ(line(job),
            "mpirun -l -np 4 -ppn 2 -hosts a,b -bootstrap=ssh -bind-to none -iface eth0 -genv "
            "NCCL_SOCKET_IFNAME eth0 -outfile-pattern out -genvlist PATH,_HOROVOD_SECRET_KEY "
            "python train.py");
  EXPECT_EQ(mpirun_command(job)->environment,
            (Environment{{"HYDRA_LAUNCHER_EXTRA_ARGS", "-p 22"}}));
  job.implementation = Implementation::kIntel;
  EXPECT_EQ(mpirun_command(job)->environment,
            (Environment{{"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-p 22"}}));
  EXPECT_EQ(line(small_job(Implementation::kIntel)),
            "mpirun -l -np 4 -ppn 2 -hosts a,b -bootstrap=ssh -genvlist PATH,_HOROVOD_SECRET_KEY "
            "python train.py");
}

TEST(Mpirun, HydraIsWhatMpichAndIntelMpiStartRanksWith) {
  EXPECT_TRUE(is_hydra(Implementation::kMpich));
  EXPECT_TRUE(is_hydra(Implementation::kIntel));
  EXPECT_FALSE(is_hydra(Implementation::kOpenMpi));
  EXPECT_FALSE(is_hydra(Implementation::kSpectrum));
}

TEST(Mpirun, UnsupportedJobsOfHydraAreRejected) {
  MpirunJob job = small_job(Implementation::kMpich);
  job.interfaces = {"eth0", "eth1"};
  EXPECT_EQ(mpirun_command(job).status().message(),
            "MPICH takes one network interface, not eth0,eth1");
  job = small_job(Implementation::kIntel);
  job.hosts[1].slots = 3;
  EXPECT_THAT(mpirun_command(job).status().message(),
              HasSubstr("Intel MPI needs the same number of processes on each host, not a:2,b:3"));
}

TEST(Mpirun, ManyHostsAreStartedConcurrently) {
  MpirunJob job = small_job(Implementation::kOpenMpi);
  constexpr char kMany[] = "-mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64";
  for (int i = 2; i < 63; ++i) job.hosts.push_back({"h" + std::to_string(i), 2});
  EXPECT_THAT(line(job), ::testing::Not(HasSubstr("plm_rsh")));
  job.hosts.push_back({"last", 2});
  EXPECT_THAT(line(job), HasSubstr(kMany));
}

TEST(Jsrun, TheRankFileDividesTheCoresAmongTheGpus) {
  const auto text =
      jsrun_rank_file({{"a", 2}, {"b", 2}}, 3, {.cores = 21, .threads_per_core = 4, .gpus = 2});
  ASSERT_OK(text);
  EXPECT_EQ(*text,
            "overlapping_rs: allow\n"
            "cpu_index_using: logical\n"
            "\n"
            "rank: 0: { hostname: a; cpu: {0-41} ; gpu: * ; mem: * }\n"
            "rank: 1: { hostname: a; cpu: {42-83} ; gpu: * ; mem: * }\n"
            "\n"
            "rank: 2: { hostname: b; cpu: {0-41} ; gpu: * ; mem: * }\n");
}

TEST(Jsrun, SlotsThatDoNotFitAreRefused) {
  const NodeResources node{.cores = 4, .gpus = 2};
  EXPECT_EQ(jsrun_rank_file({{"a", 3}}, 3, node).status().message(),
            "a has 3 slots, but 2 GPUs: jsrun starts a rank per GPU");
  EXPECT_THAT(jsrun_rank_file({{"a", 2}}, 3, node).status().message(),
              HasSubstr("Requested more processes (3)"));
  EXPECT_THAT(jsrun_rank_file({{"a", 2}}, 2, {.cores = 1, .gpus = 2}).status().message(),
              HasSubstr("1 cores are too few for 2 GPUs"));
}

TEST(Jsrun, CommandLine) {
  JsrunJob job{.command = {"python", "train.py"}};
  auto command = jsrun_command(job);
  command[kRankFileArgument] = "FILE";
  EXPECT_EQ(join(command, " "), "jsrun --erf_input FILE python train.py");
  job.binding = {"-n", "4"};
  job.output = "out";
  job.mpi_arguments = {"-tcp", "-x"};
  EXPECT_EQ(join(jsrun_command(job), "|"),
            "jsrun|-n|4|--stdio_stdout|out|--stdio_stderr|out|--smpiargs|-tcp -x|python|train.py");
}

}  // namespace
}  // namespace hvd::launcher
