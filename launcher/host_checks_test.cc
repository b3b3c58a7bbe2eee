// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/rendezvous_service.h"
#include "testing/assertions.h"

namespace hvd::launcher {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(HostChecks, RanksStartAtHomeIfTheJobsDirectoryIsMissing) {
  setenv("HOME", "/usr", 1);
  StartRanks job;
  std::string warning;
  job.directory = "/proc";
  EXPECT_EQ(usable_directory(job, warning), "/proc");
  EXPECT_EQ(warning, "");
  job.directory = "/no/such/folder";
  EXPECT_EQ(usable_directory(job, warning), "/usr");
  EXPECT_EQ(warning, "the directory /no/such/folder does not exist; its ranks start in /usr");
  unsetenv("HOME");
  EXPECT_EQ(usable_directory(job, warning), "/");
}

TEST(HostChecks, AHostUsesTheInterfacesOfTheJobThatItHas) {
  StartRanks job;
  EXPECT_THAT(*usable_interfaces(job), IsEmpty()) << "no restriction";
  job.one_host = true;
  EXPECT_THAT(*usable_interfaces(job), ElementsAre("lo"));
  job.one_host = false;
  job.interfaces = {"no-such-0", "lo"};
  EXPECT_THAT(*usable_interfaces(job), ElementsAre("lo"));
  job.interfaces = {"no-such-0", "no-such-1"};
  const auto none = usable_interfaces(job);
  EXPECT_CODE(StatusCode::kNotFound, none);
  EXPECT_THAT(none.status().message(),
              HasSubstr("none of the network interfaces no-such-0, no-such-1 exists here"));
  EXPECT_THAT(none.status().message(), HasSubstr("there are: lo"));
}

TEST(HostChecks, TheRendezvousServerOfAnotherJobIsRejected) {
  const Secret secret = Secret::generate();
  const auto ours = start_rendezvous(secret, /*one_host=*/true, {}, /*tls=*/false);
  const auto other = start_rendezvous(Secret::generate(), /*one_host=*/true, {}, /*tls=*/false);
  ASSERT_OK(ours);
  ASSERT_OK(other);
  StartRanks job;
  job.secret = SecretText(secret.to_base64());
  job.rendezvous = other->addresses;
  EXPECT_CODE(StatusCode::kUnavailable, find_rendezvous(job));
  job.rendezvous.push_back(ours->addresses.front());
  const auto found = find_rendezvous(job);
  ASSERT_OK(found);
  EXPECT_EQ(found->to_string(), ours->addresses.front());
}

TEST(HostChecks, TheRendezvousServerListensOnlyOnTheInterfacesOfTheJob) {
  const auto rendezvous =
      start_rendezvous(Secret::generate(), /*one_host=*/false, {"lo", "no-such-0"}, false);
  ASSERT_OK(rendezvous);
  EXPECT_FALSE(rendezvous->addresses.empty());
  for (const Endpoint& each : rendezvous->server->endpoints()) {
    EXPECT_THAT(each.host(), AnyOf("127.0.0.1", "::1"));
    EXPECT_THAT(rendezvous->addresses, Contains(each.to_string()));
  }
  EXPECT_CODE(StatusCode::kNotFound,
              start_rendezvous(Secret::generate(), false, {"no-such-0"}, false));
}

TEST(HostChecks, ExplainsWhyACommandDoesNotRun) {
  const Status missing = not_found("");
  EXPECT_EQ(explain_command("train", missing), "there is no command \"train\" in PATH");
  EXPECT_EQ(explain_command("./train", missing), "there is no command \"./train\"");
  const std::string script = ::testing::TempDir() + "script";
  std::ofstream(script) << "#!/no/such/python\n";
  EXPECT_EQ(explain_command(script, missing),
            "\"" + script + "\" is there, but the interpreter that its first line names is not");
  std::filesystem::remove(script);
  EXPECT_THAT(explain_command("/tmp", io_error("/tmp", EACCES)),
              HasSubstr("cannot run \"/tmp\": /tmp: Permission denied"));
}

}  // namespace
}  // namespace hvd::launcher
