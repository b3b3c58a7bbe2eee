// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/doctor.h"

namespace hvd::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HostRecord well(const std::string& name, bool remote) {
  HostRecord host{.name = name, .slots = 4, .remote = remote, .version = "1.0.0"};
  host.findings = Findings{.cpus = 4,
                           .shared_memory = uint64_t{1} << 30,
                           .interfaces = {"eth0 10.0.0.1/24"},
                           .frameworks = {"torch 2.1.0 (horovod.torch)"}};
  return host;
}

TEST(Verdict, HealthyHostsHaveNoProblems) {
  const Measurement fast{"10.0.0.2:7000", 50'000, 1'100'000'000, ""};
  const Verdict verdict = make_verdict({well("a", false), well("b", true)}, {{0, 1, fast}});
  EXPECT_EQ(0, verdict.problems);
  for (const char* part :
       {"a (this machine)", "reached by ssh", "4 CPUs for 4 slots", "1024 MiB", "eth0 10.0.0.1/24",
        "torch 2.1.0", "a to b (10.0.0.2:7000): round trip 50 us, 1100 MB/s",
        "No problems found"}) {
    EXPECT_THAT(verdict.text, HasSubstr(part));
  }
  EXPECT_THAT(verdict.text, Not(HasSubstr("[!!]")));
}

TEST(Verdict, EveryProblemHasARemedy) {
  HostRecord narrow = well("b", true);
  narrow.slots = 8;
  narrow.findings->shared_memory = uint64_t{64} << 20;
  narrow.findings->frameworks = {"torch 2.0.0"};
  narrow.clock_ahead_us = -90'000'000;
  const HostRecord lost{.name = "c", .remote = true, .trouble = "it refuses the login"};
  const Measurement slow{"10.0.0.2:7000", 900'000, 11'000'000, ""};
  const Verdict verdict = make_verdict({well("a", false), narrow, lost}, {{0, 1, slow}});
  EXPECT_EQ(6, verdict.problems);
  for (const char* part :
       {"[!!] 4 CPUs for 8 slots: ", "--shm-size", "differs by -90.0 s", "than on a",
        "[!!] it refuses the login", "--network-interfaces", "6 things to fix"}) {
    EXPECT_THAT(verdict.text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace hvd::launcher
